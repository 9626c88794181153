// One GPU for each process: through the list of visible devices in TensorFlow 2, through the session
// configuration in TensorFlow 1.
#include "telar/weave/keras/writer.h"

namespace telar::weave {

namespace {

/// Adds the GPU after `config = tf.ConfigProto(…)`. Returns whether the script creates a session.
bool write_sessions(KerasWeaving& w) {
  bool any = false;
  const std::string local = w.dialect.module() + ".local_rank()";
  for (const Node* call : w.names.calls()) {
    const std::string callee = w.names.callee(call);
    if (callee.ends_with(".ConfigProto") && callee.starts_with("tensorflow")) {
      const Node* statement = statement_of(call);
      if (!statement->is(Kind::assign) || statement->child("value") != call)
        w.refuse(call, "keep the ConfigProto in a variable, so that its GPU can be selected");
      const std::string name = w.text(*statement->list("targets")[0]);
      w.dialect.use(call);
      w.edits.after(*statement, {name + ".gpu_options.allow_growth = True",
                                 name + ".gpu_options.visible_device_list = str(" + local + ")"});
      w.edits.explain(call->line, name + ".gpu_options.visible_device_list = str(" + local + ")",
                      "each process has its own GPU");
      any = true;
    }
  }
  for (const Node* call : w.names.calls()) {
    const std::string callee = w.names.callee(call);
    if (!callee.ends_with(".Session") || !callee.starts_with("tensorflow")) continue;
    any = true;
    if (w.names.argument(call, "config", 2) != nullptr) continue;
    const Node* statement = statement_of(call);
    const std::string config = w.names.fresh("config");
    const std::string tf = w.text(*call->child("func")->child("value"));
    w.dialect.use(call);
    w.edits.before(*statement,
                   {config + " = " + tf + ".ConfigProto()", config + ".gpu_options.allow_growth = True",
                    config + ".gpu_options.visible_device_list = str(" + local + ")"});
    w.edits.add_argument(*call, "config=" + config);
    w.edits.explain(call->line, config + ".gpu_options.visible_device_list = str(" + local + ")",
                    "each process has its own GPU");
  }
  return any;
}

}  // namespace

void write_keras_devices(KerasWeaving& w) {
  for (const Node* call : w.names.calls()) {
    const std::string callee = w.names.callee(call);
    if (callee.ends_with("set_visible_devices") ||
        (callee.ends_with("set_memory_growth") && w.dialect.is_horovod())) {
      const Node* statement = statement_of(call);
      if (callee.ends_with("set_visible_devices"))
        w.refuse(statement, "remove it: each process must see all GPUs to select its own");
    }
    if (callee == "tensorflow.device" && !call->list("args").empty() && call->list("args")[0]->is_string()) {
      const std::string_view device = call->list("args")[0]->text;
      if (device.find("GPU:") != std::string::npos || device.find("gpu:") != std::string::npos) {
        if (!device.ends_with(":0"))
          w.refuse(
              call,
              "the program places parts on several GPUs itself; decide which part each process should have");
      }
    }
  }
  for (const Node& node : w.names.tree().nodes()) {
    if (!node.is(Kind::assign) || !node.list("targets")[0]->is(Kind::subscript)) continue;
    const Node* key = node.list("targets")[0]->child("slice");
    const Node* value = node.child("value");
    if (key == nullptr || !key->is_string() || key->text != "CUDA_VISIBLE_DEVICES") continue;
    // "" and "-1" hide all GPUs.
    if (value->is_string() && (value->text.empty() || value->text == "-1")) continue;
    w.refuse(&node, "remove it: each process must see all GPUs to select its own");
  }
  if (!w.dialect.is_horovod()) return;
  if (w.program.sessions && write_sessions(w)) return;
  const std::string tf = w.tensorflow(w.dialect.script());
  const std::string local = w.dialect.module() + ".local_rank()";
  if (w.program.sessions) {
    const std::string config = w.names.fresh("config");
    w.dialect.at_start(
        {config + " = " + tf + ".compat.v1.ConfigProto()", config + ".gpu_options.allow_growth = True",
         config + ".gpu_options.visible_device_list = str(" + local + ")",
         tf + ".compat.v1.keras.backend.set_session(" + tf + ".compat.v1.Session(config=" + config + "))"});
    w.edits.explain(0, config + ".gpu_options.visible_device_list = str(" + local + ")",
                    "each process has its own GPU");
    return;
  }
  const std::string gpus = w.names.fresh("gpus");
  const std::string gpu = w.names.fresh("gpu");
  w.dialect.at_start(
      {gpus + " = " + tf + ".config.list_physical_devices(\"GPU\")", "for " + gpu + " in " + gpus + ":",
       "    " + tf + ".config.experimental.set_memory_growth(" + gpu + ", True)", "if " + gpus + ":",
       "    " + tf + ".config.set_visible_devices(" + gpus + "[" + local + "], \"GPU\")"});
  w.edits.explain(0, tf + ".config.set_visible_devices(" + gpus + "[" + local + "], \"GPU\")",
                  "each process has its own GPU");
}

}  // namespace telar::weave
