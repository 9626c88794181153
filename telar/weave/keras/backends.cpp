// Keras 3 trains with TensorFlow, JAX or PyTorch, as an environment variable says. Horovod and tf.distribute
// need TensorFlow.
#include <algorithm>

#include "telar/weave/keras/writer.h"

namespace telar::weave {

namespace {

/// The value in `os.environ["KERAS_BACKEND"] = "jax"`; null if a statement is something else.
const Node* chosen_backend(const KerasWeaving& w, const Node& node) {
  if (!node.is(Kind::assign) || !node.list("targets")[0]->is(Kind::subscript)) return nullptr;
  const Node* target = node.list("targets")[0];
  const bool of_backend = target->child("slice")->is_string() &&
                          target->child("slice")->text == "KERAS_BACKEND" &&
                          w.names.qualified(target->child("value")) == "os.environ";
  return of_backend ? node.child("value") : nullptr;
}

}  // namespace

void write_keras_backend(KerasWeaving& w) {
  for (const Node& node : w.names.tree().nodes()) {
    const Node* chosen = chosen_backend(w, node);
    if (chosen == nullptr || (chosen->is_string() && chosen->text == "tensorflow")) continue;
    const auto& imports = w.names.imports();
    const bool uses_other = std::any_of(imports.begin(), imports.end(), [](const auto& import) {
      return import.first == "jax" || import.first.starts_with("jax.") || import.first == "torch" ||
             import.first.starts_with("torch.");
    });
    if (!chosen->is_string() || uses_other)
      w.refuse(
          &node,
          "Horovod and tf.distribute need Keras' TensorFlow backend; choose it, and write what the script does with another library for TensorFlow");
    w.edits.replace(*chosen, "\"tensorflow\"");
    w.edits.explain(node.line, w.text(*node.list("targets")[0]) + " = \"tensorflow\"",
                    "Horovod and tf.distribute train with this backend of Keras");
  }
}

}  // namespace telar::weave
