#include "telar/weave/keras/writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "telar/weave/torch/program.h"
#include "telar/weave/write/outputs.h"

namespace telar::weave {

std::string KerasWeaving::tensorflow(const Node* at) const {
  for (const auto& [module, statement] : names.imports()) {
    if (!statement->is(Kind::import) || statement->parent != module_of(at)) continue;
    for (const Node* alias : statement->list("names")) {
      if (alias->text == "tensorflow") {
        if (alias->as_name.empty()) {
          dialect.rely_on(statement, "import tensorflow", at);
          return "tensorflow";
        }
        std::string name(alias->as_name);
        dialect.rely_on(statement, "import tensorflow as " + name, at);
        return name;
      }
      // Sessions: `import tensorflow.compat.v1 as tf` provides all of TensorFlow 1, and TensorFlow 2 besides.
      if (alias->text.starts_with("tensorflow.") && alias->as_name.empty()) return "tensorflow";
    }
  }
  if (names.is_used_in(module_of(at), "tf")) return dialect.module_name("tensorflow", at);
  dialect.import("import tensorflow as tf", at);
  return "tf";
}

std::string KerasWeaving::keras_module(const std::string& part, const Node* at) const {
  // The module may already be imported under an alias.
  for (const auto& [module, statement] : names.imports()) {
    if (statement->parent != module_of(at)) continue;
    for (const Node* alias : statement->list("names")) {
      const bool from = statement->is(Kind::import_from);
      const std::string whole =
          from ? fmt::format("{}.{}", statement->text, alias->text) : std::string(alias->text);
      std::string name(!alias->as_name.empty() ? alias->as_name : from ? alias->text : "");
      const std::string known = canonical(whole + ".x");
      if (known == "keras." + part + ".x" && !name.empty()) return name;
      if (known == "keras.x" && !name.empty()) return name + "." + part;
      if (whole == "keras" && name.empty()) return "keras." + part;
      if (whole == "tensorflow") return (name.empty() ? whole : name) + ".keras." + part;
    }
  }
  if (program.standalone) {
    dialect.import("from keras import " + part, at);
  } else {
    dialect.import("from tensorflow.keras import " + part, at);
  }
  return part;
}

namespace {

bool imports_datasets(const std::string& callee) {
  return callee.starts_with("keras.datasets.") && callee.ends_with(".load_data");
}

/// One process per host downloads; the others wait for it.
void write_downloads(KerasWeaving& w) {
  if (!w.dialect.is_horovod()) return;
  for (const Node* call : w.names.calls()) {
    const std::string callee = w.names.callee(call);
    if (!imports_datasets(callee) && callee != "keras.utils.get_file") continue;
    const Node* statement = statement_of(call);
    if (!statement->is(Kind::assign) && !statement->is(Kind::expr)) {
      w.refuse(
          call,
          "assign its result to a variable first, so that one process can download while the others wait");
    }
    const std::string local = w.dialect.local_rank(call);
    const std::string barrier = w.dialect.barrier(call);
    w.edits.before(*statement, {"if " + local + " != 0:", "    " + barrier});
    w.edits.after(*statement, {"if " + local + " == 0:", "    " + barrier});
    w.edits.explain(call->line, "the first process of a host downloads",
                    "the others wait and find the files");
  }
}

bool has_steps_of_own(const KerasWeaving& w) { return !w.program.tapes.empty(); }

void write_start(KerasWeaving& w) {
  Dialect& dialect = w.dialect;
  const std::string& module = dialect.module();
  if (dialect.is_tf_distribute()) {
    const std::string tf = w.tensorflow(dialect.script());
    const std::string os = dialect.module_name("os", dialect.script());
    const std::string one_host = tf + ".distribute.MirroredStrategy()";
    std::vector<std::string> start;
    if (w.is_for_one_host) {
      start = {
          "if \"TF_CONFIG\" in " + os + ".environ:",
          "    raise SystemExit(\"images of an ImageDataGenerator can be distributed on one host only\")",
          module + " = " + one_host};
    } else {
      start = {module + " = " + tf + ".distribute.MultiWorkerMirroredStrategy() if \"TF_CONFIG\" in " + os +
               ".environ else " + one_host};
    }
    start.push_back(w.names.fresh("is_chief") + " = " + module + ".cluster_resolver is None or " + module +
                    ".cluster_resolver.task_id == 0");
    dialect.write("", start, {}, {});
    w.edits.explain(0, module + " = …",
                    w.is_for_one_host
                        ? "all GPUs of this host; other hosts would draw the images in orders of their own"
                        : "all GPUs of this host; if TF_CONFIG names a cluster, those of all its workers");
    return;
  }
  std::string import;
  if (w.program.fits.empty()) {
    import = "import horovod.tensorflow as " + module;
  } else {
    import =
        std::string("import horovod.") + (w.program.standalone ? "" : "tensorflow.") + "keras as " + module;
  }
  w.edits.explain(0, module + ".init()", "Horovod starts; each process takes one GPU");
  dialect.write(import, {module + ".init()"}, {}, {module + ".init()"});
}

}  // namespace

void write_keras(const Names& names, const KerasProgram& program, const Choices& choices, Edits& edits) {
  Dialect dialect(names, edits, choices);
  KerasWeaving weaving{names, program, edits, dialect};
  const std::string& hvd = dialect.module();
  dialect.set_barrier([&](const Node* at) {
    return program.fits.empty() ? hvd + ".allreduce(" + weaving.tensorflow(at) + ".constant(0.0))"
                                : hvd + ".allreduce(0.0, name=\"barrier\")";
  });
  write_keras_backend(weaving);
  write_keras_devices(weaving);
  write_keras_fits(weaving);
  if (has_steps_of_own(weaving)) {
    dialect.is_tf_distribute() ? write_keras_replicas(weaving) : write_keras_tapes(weaving);
  }
  write_keras_optimizers(weaving);
  write_downloads(weaving);
  write_keras_seeds(weaving);
  write_keras_sets(weaving);
  if (dialect.is_tf_distribute()) write_keras_scope(weaving);
  write_keras_outputs(weaving);
  write_start(weaving);
}

}  // namespace telar::weave
