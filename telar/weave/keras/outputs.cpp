// Files of models, checkpoints and TensorBoard are written by one process.
#include <algorithm>

#include "telar/weave/keras/writer.h"
#include "telar/weave/torch/program.h"
#include "telar/weave/write/outputs.h"
#include "telar/weave/write/reads.h"

namespace telar::weave {

namespace {

bool is_saving(const KerasWeaving& w, const Node* call) {
  const Node* function = call->child("func");
  const std::string callee = w.names.callee(call);
  return callee.ends_with(".ModelCheckpoint") || callee == "keras.models.save_model" ||
         (function->is(Kind::attribute) && (function->text == "save" || function->text == "save_weights"));
}

bool is_loading(const KerasWeaving& w, const Node* call) {
  const Node* function = call->child("func");
  const std::string callee = w.names.callee(call);
  return callee == "keras.models.load_model" || callee == "tensorflow.train.latest_checkpoint" ||
         (function->is(Kind::attribute) &&
          (function->text == "load_weights" || function->text == "restore") && callee.empty());
}

/// Whether a call changes files on rank 0 alone.
bool changes_files(const KerasWeaving& w, const Node* call) {
  const std::string& callee = w.names.callee(call);
  return callee.starts_with("shutil.copy") || callee == "shutil.move" || callee == "shutil.rmtree" ||
         callee == "os.remove" || callee == "os.unlink" || callee == "os.rename" ||
         callee == "tensorflow.io.write_file" || callee == "keras.utils.save_img";
}

/// Whether a call makes data of the files that are in a folder.
bool reads_folder(const KerasWeaving& w, const Node* call) {
  const std::string& callee = w.names.callee(call);
  const Node* function = call->child("func");
  return (callee.starts_with("keras.") && callee.ends_with("_dataset_from_directory")) ||
         (function->is(Kind::attribute) && function->text == "flow_from_directory") ||
         callee == "tensorflow.data.Dataset.list_files";
}

bool is_training(const KerasWeaving& w, const Node* call) {
  for (const KerasCall& fit : w.program.fits) {
    if (fit.call == call) return true;
  }
  // Under tf.distribute, all workers evaluate together.
  for (const KerasCall& evaluation : w.program.evaluations) {
    if (w.dialect.is_tf_distribute() && evaluation.call == call) return true;
  }
  for (const KerasLoop& loop : w.program.loops) {
    if (loop.trains && is_inside(call, loop.loop)) return true;
  }
  const Node* function = call->child("func");
  // All workers read a metric together if the replicas update it.
  if (w.dialect.is_tf_distribute() && w.program.fits.empty() && function->is(Kind::attribute) &&
      function->text == "result")
    return true;
  return is_apply(call);
}

/// A function that saves a model, which is its first argument.
bool saves_by_name(const KerasWeaving& w, const Node* call) {
  const std::string callee = w.names.callee(call);
  return callee == "keras.models.save_model" || callee == "tensorflow.saved_model.save";
}

/// tf.distribute: all workers must save, because saving gathers variables; only one of them saves to the
/// requested path.
void write_saves(KerasWeaving& w) {
  for (const Node* call : w.names.calls()) {
    const Node* function = call->child("func");
    const bool method = function->is(Kind::attribute) &&
                        (function->text == "save" || function->text == "save_weights") &&
                        w.names.definition(function) == nullptr && w.names.callee(call).empty();
    const bool by_name = saves_by_name(w, call);
    if (!method && !by_name) continue;
    const Node* path = w.names.argument(call, "filepath", by_name ? 1 : 0);
    // tf.train.Checkpoint, tf.saved_model
    for (const char* name : {"file_prefix", "export_dir"})
      if (path == nullptr) path = w.names.argument(call, name, -1);
    if (path == nullptr || !is_inside(path, call)) continue;
    save_on_chief(w, call, path);
  }
}

}  // namespace

void save_on_chief(KerasWeaving& w, const Node* call, const Node* path) {
  const std::string os = w.dialect.module_name("os", call);
  const std::string tempfile = w.dialect.module_name("tempfile", call);
  const std::string text = w.text(*path);
  w.edits.replace(*path, text + " if " + w.dialect.is_first(call) + " else " + os + ".path.join(" + tempfile +
                             ".mkdtemp(), " + os + ".path.basename(" + text + "))");
  w.edits.explain(call->line, "the other workers save into a temporary folder",
                  "saving gathers variables of all workers, so all take part");
}

void write_keras_outputs(KerasWeaving& w) {
  const bool distribute = w.dialect.is_tf_distribute();
  if (distribute) write_saves(w);
  for (const Node* call : w.names.calls()) {
    if (w.names.callee(call) != "tensorflow.summary.create_file_writer") continue;
    const bool whole = call->parent->is(Kind::assign) || call->parent->is(Kind::return_) ||
                       call->parent->is(Kind::with_item);
    if (!whole) w.refuse(call, "keep the writer in a variable, so that only one process has one");
    w.edits.insert(call->end, " if " + w.dialect.is_first(call) + " else " + w.tensorflow(call) +
                                  ".summary.create_noop_writer()");
    w.edits.explain(call->line, "one process has a summary writer", "one process writes the event file");
  }
  if (!distribute) {
    const auto& calls = w.names.calls();
    const bool saves =
        std::any_of(calls.begin(), calls.end(), [&](const Node* call) { return is_saving(w, call); });
    const bool changes =
        std::any_of(calls.begin(), calls.end(), [&](const Node* call) { return changes_files(w, call); });
    write_reads(w.names, w.edits, w.dialect, [&](const Node* call) {
      return (saves && is_loading(w, call)) || (changes && reads_folder(w, call));
    });
  }
  write_outputs(
      w.names, w.edits, w.dialect,
      [&](const Node* call) {
        return is_training(w, call) ||
               reaches(w.names, call, [&](const Node* inner) { return is_training(w, inner); });
      },
      [&](const Node* call) {
        const Node* function = call->child("func");
        const bool of_models = w.names.callee(call).empty() || saves_by_name(w, call);
        return distribute && of_models && function->is(Kind::attribute) &&
               (function->text == "save" || function->text == "save_weights" ||
                function->text == "save_model" || function->text == "write");
      });
}

}  // namespace telar::weave
