#include "telar/weave/program.h"

#include <algorithm>

namespace telar::weave {

namespace {

bool is_loss(const std::string& callee) {
  return (callee.starts_with("torch.nn.") && callee.ends_with("Loss")) ||
         callee == "torch.nn.functional.cross_entropy" || callee == "torch.nn.functional.nll_loss" ||
         callee == "torch.nn.functional.mse_loss" ||
         callee.starts_with("torch.nn.functional.binary_cross_entropy") ||
         callee.starts_with("keras.losses.");
}

bool is_output(const Node* call, const std::string& callee) {
  const Node* function = call->child("func");
  return callee == "torch.save" || callee == "print" || callee.ends_with("SummaryWriter") ||
         callee.ends_with("create_file_writer") || callee == "keras.models.save_model" ||
         (function->is(Kind::attribute) && callee.empty() &&
          (function->text == "save" || function->text == "save_weights"));
}

void add_common(const Names& names, Program& program) {
  for (const Node* call : names.calls()) {
    const std::string& callee = names.callee(call);
    if (is_loss(callee)) program.losses.push_back(call);
    if (is_output(call, callee)) program.outputs.push_back(call);
  }
}

}  // namespace

bool makes_layer(const std::string& callee) {
  if (callee.starts_with("keras.layers.")) return true;
  return callee.starts_with("torch.nn.") && !callee.starts_with("torch.nn.functional.") &&
         !callee.starts_with("torch.nn.init.") && !callee.starts_with("torch.nn.utils.") &&
         callee != "torch.nn.Sequential" && callee != "torch.nn.ModuleList";
}

Program program_of(const Names& names, const TorchProgram& torch) {
  Program program;
  program.framework = "pytorch";
  for (const TorchModel& model : torch.models) program.models.push_back({model.text, model.origins});
  for (const TorchOptimizer& optimizer : torch.optimizers) {
    Program::Optimizer one{optimizer.call, {}};
    for (const size_t model : optimizer.models) one.models.push_back(torch.models[model].text);
    program.optimizers.push_back(one);
  }
  program.schedules = torch.schedulers;
  for (const TorchLoader& loader : torch.loaders) program.data.push_back({loader.call, loader.trains});
  for (const TorchLoop& loop : torch.loops)
    program.loops.push_back({loop.loop, loop.loader.expression, loop.trains});
  add_common(names, program);
  return program;
}

Program program_of(const Names& names, const KerasProgram& keras) {
  Program program;
  program.framework = "keras";
  for (const Node* made : keras.models) {
    const Node* statement = statement_of(made);
    const bool named = statement->is(Kind::assign) && statement->child("value") == made;
    program.models.push_back(
        {named ? text_of(names, statement->list("targets")[0]) : text_of(names, made->child("func")),
         {made}});
  }
  for (const Node* made : keras.optimizers) program.optimizers.push_back({made, {}});
  for (const KerasCall& compile : keras.compiles) {
    const Node* given = names.argument(compile.call, "optimizer", 0);
    for (const Node* origin : given == nullptr ? std::vector<const Node*>() : names.origins(given)) {
      const std::string model = text_of(names, compile.model);
      const auto known = std::find_if(program.optimizers.begin(), program.optimizers.end(),
                                      [&](const auto& one) { return one.made == origin; });
      if (known != program.optimizers.end()) {
        known->models.push_back(model);
      } else {
        program.optimizers.push_back({origin, {model}});
      }
    }
    const Node* loss = names.argument(compile.call, "loss", 1);
    if (loss != nullptr && !loss->is(Kind::call)) program.losses.push_back(loss);
  }
  program.schedules = keras.schedules;
  program.callbacks = keras.callbacks;
  for (const auto* calls : {&keras.fits, &keras.evaluations}) {
    for (const KerasCall& call : *calls) {
      const Node* over = names.argument(call.call, "x", 0);
      program.loops.push_back({call.call, over, calls == &keras.fits});
      if (over != nullptr) program.data.push_back({over, calls == &keras.fits});
    }
  }
  for (const KerasLoop& loop : keras.loops) {
    program.loops.push_back({loop.loop, loop.dataset, loop.trains});
    program.data.push_back({loop.dataset, loop.trains});
  }
  add_common(names, program);
  return program;
}

}  // namespace telar::weave
