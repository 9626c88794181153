// Keras: the data that Python makes for fit(): images of an ImageDataGenerator, a Sequence, a generator.
#include "telar/weave/keras/writer.h"

namespace telar::weave {

namespace {

bool is_generator(const Node* function) {
  bool yields = false;
  walk(*function, [&](const Node& node) {
    if (&node != function && node.is_function()) return false;
    yields = yields || node.is(Kind::yield);
    return !yields;
  });
  return yields;
}

class PythonData {
 public:
  PythonData(KerasWeaving& weaving, const Node* call, const Node* x, bool has_steps)
      : w_(weaving), call_(call), x_(x), has_steps_(has_steps) {}

  bool write() { return write_images() || write_sequence() || write_generator(); }

 private:
  /// Divides the images of an ImageDataGenerator: the arrays of flow(x, y), or the files of a folder.
  bool write_images() {
    bool found = false;
    for (const Node* origin : w_.names.origins(x_)) {
      if (!origin->is(Kind::call) || !origin->child("func")->is(Kind::attribute)) continue;
      const Node* function = origin->child("func");
      if (!function->text.starts_with("flow")) continue;
      if (function->text != "flow" && function->text != "flow_from_directory")
        w_.refuse(
            origin,
            "weave does not know how to divide these files; use flow_from_directory(), or keras.utils.image_dataset_from_directory with a seed");
      if (w_.dialect.is_tf_distribute()) {
        if (!found && w_.grows()) enlarge();
        found = w_.is_for_one_host = true;
        continue;
      }
      const bool files = function->text == "flow_from_directory";
      if (files && w_.shares_samples() && !found) share_files();
      found = true;
      if (!w_.shared.insert(origin).second) continue;
      if (w_.shares_samples() && !files) {
        share_arrays(w_, w_.names.argument(origin, "x", 0));
        if (const Node* y = w_.names.argument(origin, "y", 1); !is_none(y)) share_arrays(w_, y);
      }
      if (!w_.grows()) {
        const Node* size = w_.names.argument(origin, "batch_size", files ? 5 : 2);
        if (size == nullptr || !is_inside(size, origin))
          w_.refuse(origin, "pass batch_size to it directly, so that it can be divided");
        w_.edits.replace(*size, divided(w_.names.tree(), *size, w_.dialect.size(size)));
      }
      if (!files) w_.edits.explain(origin->line, "the arrays are divided among the processes", kWhyShare);
    }
    return found;
  }

  /// tf.distribute: gives fit() larger batches of the same images; the replicas take parts of them.
  void enlarge() {
    const std::string name = w_.names.fresh("larger_batches");
    w_.dialect.function(
        {"def " + name + "(images):", "    # The same images, in batches for all replicas together.",
         "    larger = " + w_.dialect.module_name("copy", x_) + ".copy(images)",
         "    larger.batch_size *= " + w_.dialect.size(x_), "    return larger"},
        x_);
    w_.edits.insert(x_->begin, name + "(");
    w_.edits.insert(x_->end, ")");
    w_.edits.explain(x_->line, name + "(…)", "each replica takes the script's batch");
  }

  /// Divides the files of flow_from_directory() where fit() receives them; what else uses them sees all.
  void share_files() {
    const std::string name = w_.names.fresh("SharedFiles");
    const std::string& hvd = w_.dialect.module();
    const std::string numpy = w_.dialect.module_name("numpy", x_);
    w_.dialect.function(
        {"class " + name + "(" + w_.keras_module("utils", x_) + ".Sequence):",
         "    # Each process takes its own files, the same number for each, in an order of its own.", "",
         "    def __init__(self, whole):", "        super().__init__()",
         "        self.whole = " + w_.dialect.module_name("copy", x_) + ".copy(whole)",
         "        self.files = " + numpy + ".arange(" + hvd + ".rank(), whole.n // " + hvd + ".size() * " +
             hvd + ".size(), " + hvd + ".size())",
         "        self.on_epoch_end()", "",
         "    def __len__(self):", "        return -(-len(self.files) // self.whole.batch_size)", "",
         "    def __getitem__(self, index):", "        return self.whole[index]", "",
         "    def on_epoch_end(self):",
         "        self.whole.index_array = " + numpy +
             ".random.permutation(self.files) if self.whole.shuffle else self.files"},
        x_);
    w_.edits.insert(x_->begin, name + "(");
    w_.edits.insert(x_->end, ")");
    w_.edits.explain(x_->line, name + "(…)", "each process takes its share of the files");
  }

  /// For a Sequence class of the script, each process takes every n-th batch.
  bool write_sequence() {
    const Node* own = nullptr;
    for (const Node* origin : w_.names.origins(x_)) {
      const Node* made = origin->is(Kind::call) ? w_.names.definition(origin->child("func")) : nullptr;
      if (made != nullptr && made->is(Kind::class_def) &&
          w_.names.derives(made, {"keras.utils.Sequence", "keras.utils.PyDataset"}))
        own = made;
    }
    if (own == nullptr) return false;
    if (w_.dialect.is_tf_distribute())
      w_.refuse(x_,
                "tf.distribute distributes tf.data pipelines; convert this Sequence to a tf.data.Dataset");
    if (!w_.grows())
      w_.refuse(x_, "a Sequence determines its batch size itself; weave without --global-batch keep");
    if (!w_.shares_samples()) return true;
    const std::string name = w_.names.fresh("SharedSequence");
    const std::string& hvd = w_.dialect.module();
    w_.dialect.function({"class " + name + "(" + base_of(own, call_) + "):",
                         "    # Each process takes different batches, the same number for each.", "",
                         "    def __init__(self, whole):", "        self.whole = whole", "",
                         "    def __len__(self):", "        return len(self.whole) // " + hvd + ".size()", "",
                         "    def __getitem__(self, index):",
                         "        return self.whole[index * " + hvd + ".size() + " + hvd + ".rank()]", "",
                         "    def on_epoch_end(self):", "        self.whole.on_epoch_end()"},
                        call_);
    w_.edits.insert(x_->begin, name + "(");
    w_.edits.insert(x_->end, ")");
    w_.edits.explain(call_->line, "the batches of the Sequence are divided among the processes", kWhyShare);
    w_.draws_alike = w_.streams_alike = true;
    return true;
  }

  std::string base_of(const Node* own, const Node* at) const {
    const std::string text = w_.text(*own->list("bases").front());
    const bool here = module_of(own) == module_of(at);
    return here && w_.names.definition(own->list("bases").front()) == nullptr
               ? text
               : w_.keras_module("utils", at) + ".Sequence";
  }

  /// For a Python generator, each process takes every n-th batch.
  bool write_generator() {
    bool yields = false;
    for (const Node* origin : w_.names.origins(x_)) {
      const Node* own = origin->is(Kind::call) ? w_.names.definition(origin->child("func")) : nullptr;
      yields = yields || (own != nullptr && own->is_function() && is_generator(own)) ||
               origin->is(Kind::generator);
    }
    if (!yields) return false;
    if (w_.dialect.is_tf_distribute())
      w_.refuse(x_,
                "tf.distribute distributes tf.data pipelines; create a tf.data.Dataset with from_generator");
    if (!w_.grows())
      w_.refuse(x_, "a generator determines its batch size itself; weave without --global-batch keep");
    if (!has_steps_)
      w_.refuse(call_, "pass steps_per_epoch, because the number of batches of a generator is unknown");
    if (!w_.shares_samples()) return true;
    const std::string module = w_.dialect.module_name("itertools", call_);
    const std::string& hvd = w_.dialect.module();
    w_.edits.insert(x_->begin, module + ".islice(");
    w_.edits.insert(x_->end, ", " + hvd + ".rank(), None, " + hvd + ".size())");
    w_.edits.explain(call_->line, "each process takes different batches of the generator", kWhyShare);
    w_.draws_alike = w_.streams_alike = true;
    return true;
  }

  KerasWeaving& w_;
  const Node* call_;
  const Node* x_;
  const bool has_steps_;
};

}  // namespace

bool write_python_data(KerasWeaving& weaving, const Node* call, const Node* x, bool has_steps) {
  return PythonData(weaving, call, x, has_steps).write();
}

}  // namespace telar::weave
