// The target `telar` for Keras: fit(), evaluate() and predict() stay, and Telar makes the steps of a compiled
// model.
#include <algorithm>

#include "telar/weave/keras/writer.h"

namespace telar::weave {

namespace {

/// What telar.keras does not train. Throws Refusal.
void check_fits(const KerasWeaving& w) {
  if (!w.program.tapes.empty())
    w.refuse(
        w.program.tapes[0].with,
        "Telar makes the steps of fit(), not those of a loop or a train_step with a GradientTape; use fit() of a compiled model, or --target horovod");
  for (const KerasCall& fit : w.program.fits) {
    if (fit.own_step)
      w.refuse(
          fit.call,
          "the model has a train_step of its own, and Telar makes the step itself; use --target horovod");
    const bool is_compiled = std::any_of(
        w.program.compiles.begin(), w.program.compiles.end(),
        [&](const KerasCall& compile) { return may_be_same_model(w.names, compile.model, fit.model); });
    if (!is_compiled)
      w.refuse(fit.call, "weave does not see where this model is compiled; compile it in the script");
  }
}

void write_use(KerasWeaving& w, const KerasCall& compile, const std::string& module) {
  const Node* statement = statement_of(compile.call);
  const bool is_plain = statement->is(Kind::expr) && statement->child("value") == compile.call;
  const bool is_variable = compile.model->is(Kind::name) || compile.model->is(Kind::attribute);
  if (compile.own_compile != nullptr || !is_plain || !is_variable)
    w.refuse(
        compile.call,
        "Telar takes a model after its compile(); call it on the model's variable, on a line of its own");
  const std::string options = w.names.fresh("TELAR");
  w.dialect.function({"# How Telar trains: a strategy and its options.",
                      options + " = " + w.dialect.choices().telar_options},
                     statement);
  const std::string use = module + ".use(" + w.text(*compile.model) + ", **" + options + ")";
  w.edits.after(*statement, {use});
  w.dialect.use(statement);
  w.edits.explain(statement->line, use, "Telar makes the steps of the model's fit, evaluate and predict");
}

}  // namespace

void write_keras_telar(const Names& names, const KerasProgram& program, const Choices& choices,
                       Edits& edits) {
  Dialect dialect(names, edits, choices);
  KerasWeaving weaving{names, program, edits, dialect};
  const std::string module = names.fresh("tk");
  check_fits(weaving);
  for (const KerasCall& compile : program.compiles) write_use(weaving, compile, module);
  dialect.write("import telar.keras as " + module, {}, {}, {});
}

}  // namespace telar::weave
