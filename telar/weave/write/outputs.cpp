#include "telar/weave/write/outputs.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace telar::weave {

namespace {

/// Functions that write something, by their full names.
const std::unordered_set<std::string_view>& writing_functions() {
  static const std::unordered_set<std::string_view> names = {"print",
                                                             "pprint.pprint",
                                                             "torch.save",
                                                             "torch.jit.save",
                                                             "torch.onnx.export",
                                                             "numpy.save",
                                                             "numpy.savez",
                                                             "numpy.savez_compressed",
                                                             "numpy.savetxt",
                                                             "joblib.dump",
                                                             "matplotlib.pyplot.savefig",
                                                             "matplotlib.pyplot.show",
                                                             "shutil.copy",
                                                             "shutil.copy2",
                                                             "shutil.copyfile",
                                                             "shutil.move",
                                                             "shutil.rmtree",
                                                             "os.remove",
                                                             "os.unlink",
                                                             "os.rename",
                                                             "os.replace",
                                                             "os.mkdir",
                                                             "os.makedirs",
                                                             "torchvision.utils.save_image",
                                                             "cv2.imwrite",
                                                             "imageio.imwrite",
                                                             "imageio.imsave",
                                                             "imageio.mimsave",
                                                             "tqdm.tqdm.write",
                                                             "tqdm.auto.tqdm.write",
                                                             "sys.stdout.write",
                                                             "keras.models.save_model",
                                                             "keras.utils.plot_model",
                                                             "keras.utils.save_img",
                                                             "keras.preprocessing.image.save_img",
                                                             "tensorflow.saved_model.save",
                                                             "tensorflow.io.write_file",
                                                             "safetensors.torch.save_file",
                                                             "tensorflow.print"};
  return names;
}

/// Methods that write something, on any object.
const std::unordered_set<std::string_view>& writing_methods() {
  static const std::unordered_set<std::string_view> names = {
      "savefig",       "to_csv",        "to_json",    "to_pickle",  "to_excel",    "to_parquet",
      "write_text",    "write_bytes",   "unlink",     "add_scalar", "add_scalars", "add_image",
      "add_images",    "add_histogram", "add_figure", "add_text",   "add_graph",   "add_hparams",
      "add_embedding", "add_pr_curve",  "add_video",  "add_audio"};
  return names;
}

bool is_bar(const std::string& callee) {
  return callee == "tqdm.tqdm" || callee == "tqdm.auto.tqdm" || callee == "tqdm.notebook.tqdm" ||
         callee == "tqdm.std.tqdm" || callee == "tqdm.trange" || callee == "tqdm.auto.trange";
}

bool is_board(const std::string& callee) {
  return callee == "torch.utils.tensorboard.SummaryWriter" || callee == "tensorboardX.SummaryWriter";
}

class Outputs {
 public:
  Outputs(const Names& names, Edits& edits, Dialect& dialect,
          const std::function<bool(const Node*)>& communicates,
          const std::function<bool(const Node*)>& handled)
      : names_(names),
        tree_(names.tree()),
        edits_(edits),
        dialect_(dialect),
        communicates_(communicates),
        handled_(handled) {}

  void write() {
    for (const Node* call : names_.calls()) {
      if (!in_dataset(call) && (!handled_ || !handled_(call))) visit(call);
    }
    if (logs_) {
      dialect_.at_start({"if " + dialect_.is_other(nullptr_place()) + ":",
                         "    " + logging_ + ".disable(" + logging_ + ".INFO)"});
      edits_.explain(0, "logging.disable(logging.INFO) on every rank but 0",
                     "one process reports; warnings come from all");
    }
  }

 private:
  [[noreturn]] void refuse(const Node* node, const std::string& decision) const {
    throw Refusal{node->line, std::string(tree_.text(*node)), decision};
  }

  /// A node outside functions: the initialisation at the top precedes it.
  const Node* nullptr_place() const { return some_call_; }

  /// The methods of datasets run in worker processes of the loader, which do not belong to the process group.
  bool in_dataset(const Node* node) const {
    const Node* owner = class_of(node);
    return owner != nullptr &&
           names_.derives(owner, {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset",
                                  "keras.utils.Sequence"});
  }

  void visit(const Node* call) {
    const std::string callee = names_.callee(call);
    const Node* function = call->child("func");
    if (callee == "open" || callee == "io.open" || callee == "gzip.open") return visit_open(call);
    if (callee.empty() && function->is(Kind::attribute) && function->text == "open" &&
        names_.definition(function) == nullptr)
      return visit_path(call);
    if (is_bar(callee)) return visit_bar(call);
    if (is_board(callee)) return visit_board(call);
    if (callee == "wandb.init") return visit_wandb(call);
    if (callee == "logging.basicConfig" || callee == "logging.FileHandler" ||
        callee.starts_with("logging.info") || callee == "logging.getLogger") {
      return visit_log(call, callee);
    }
    const bool by_name = writing_functions().contains(callee);
    const bool by_method =
        function->is(Kind::attribute) && callee.empty() && names_.definition(function) == nullptr &&
        (writing_methods().contains(function->text) || closes_a_board(function) || saves_an_image(function) ||
         is_of_a_model(function) || saves_a_checkpoint(function));
    if (!by_name && !by_method && !makes_folder(call, callee)) return;
    // Without a path, the method of a table or model returns text.
    if (by_method && function->text.starts_with("to_") && call->list("args").empty() &&
        call->list("keywords").empty())
      return;
    if (makes_folder(call, callee) && may_exist(call)) return;
    guard(call, callee);
  }

  bool makes_folder(const Node* call, const std::string& callee) const {
    const Node* function = call->child("func");
    return callee == "os.makedirs" ||
           (callee.empty() && function->is(Kind::attribute) && function->text == "mkdir");
  }

  /// `exist_ok=True`: all processes may create the folder.
  bool may_exist(const Node* call) const {
    const Node* value = names_.argument(call, "exist_ok", -1);
    return value != nullptr && value->text == "True";
  }

  bool closes_a_board(const Node* function) const {
    if (function->text != "close" && function->text != "flush") return false;
    for (const Node* origin : names_.origins(function->child("value"))) {
      if (origin->is(Kind::call) && is_board(names_.callee(origin))) return true;
    }
    return false;
  }

  /// `image.save("x.png")`: save() of an object whose class is not in the program.
  static bool saves_an_image(const Node* function) {
    return function->text == "save" && function->parent->parent->is(Kind::expr);
  }

  /// `model.summary()`, `model.save_weights(…)` as statements.
  static bool is_of_a_model(const Node* function) {
    return (function->text == "summary" || function->text == "save_weights" || function->text == "export") &&
           function->parent->parent->is(Kind::expr);
  }

  /// `path = manager.save()` of a tf.train.CheckpointManager.
  bool saves_a_checkpoint(const Node* function) const {
    if (function->text != "save" && function->text != "write") return false;
    for (const Node* origin : names_.origins(function->child("value"))) {
      if (origin->is(Kind::call) && names_.callee(origin).starts_with("tensorflow.train.Checkpoint"))
        return true;
    }
    return false;
  }

  void guard(const Node* call, const std::string& callee) {
    some_call_ = call;
    const Node* statement = call->parent->is(Kind::expr) ? call->parent : nullptr;
    bool talks = false;
    for (const std::string_view field : {"args", "keywords"}) {
      for (const Node* given : call->list(field)) {
        walk(*given, [&](const Node& inner) {
          talks = talks || (inner.is(Kind::call) && communicates_(&inner));
          return !talks;
        });
      }
    }
    if (statement != nullptr && !talks) {
      edits_.guard(*statement, dialect_.is_first(call));
      edits_.explain(call->line, "only on rank 0: " + first_line(call), "one process writes");
      return;
    }
    if (callee != "print") {
      if (statement == nullptr && !talks) return guard_expression(call);
      refuse(
          call,
          "all processes compute its arguments together, but only one writes; assign the result to a variable first");
    }
    const std::string name = names_.fresh("print_on_rank_0");
    dialect_.function({"def " + name + "(*values, **options):", "    if " + dialect_.is_first(call) + ":",
                       "        print(*values, **options)"},
                      call);
    edits_.replace(*call->child("func"), name);
    edits_.explain(call->line, "print becomes " + name,
                   "all processes compute the arguments; one prints them");
  }

  void guard_expression(const Node* call) {
    if (call->parent->is(Kind::lambda) || call->parent->is(Kind::if_exp) || call->parent->is(Kind::bool_op)) {
      edits_.insert(call->begin, "(");
      edits_.insert(call->end, " if " + dialect_.is_first(call) + " else None)");
      return;
    }
    if (call->parent->is(Kind::assign)) {
      edits_.insert(call->end, " if " + dialect_.is_first(call) + " else None");
      return;
    }
    refuse(call, "it writes within a larger expression; make it a separate statement");
  }

  std::string first_line(const Node* node) const {
    const std::string text(tree_.text(*node));
    return text.substr(0, text.find_first_of("\r\n"));
  }

  /// Files that are written: the other ranks write to the null device, so the rest of the code stays as it
  /// is.
  void visit_open(const Node* call) {
    const Node* mode = names_.argument(call, "mode", 1);
    if (mode == nullptr) return;
    if (!mode->is_string())
      refuse(call,
             "it cannot be determined whether it reads or writes; write the mode as a constant, as in \"w\"");
    if (mode->text.find_first_of("wax+") == std::string::npos) return;
    const Node* path = names_.argument(call, "file", 0);
    if (path == nullptr) return;
    null_device(call, path);
  }

  /// `path.open("w")` of a pathlib.Path.
  void visit_path(const Node* call) {
    const Node* mode = names_.argument(call, "mode", 0);
    if (mode == nullptr || !mode->is_string() || mode->text.find_first_of("wax+") == std::string::npos)
      return;
    some_call_ = call;
    const Node* path = call->child("func")->child("value");
    edits_.insert(path->begin, "(");
    edits_.insert(path->end, " if " + dialect_.is_first(call) + " else " +
                                 dialect_.module_name("pathlib", call) + ".Path(" +
                                 dialect_.module_name("os", call) + ".devnull))");
    edits_.explain(call->line, std::string(tree_.text(*path)) + " is written by rank 0 only",
                   "the other ranks write to the null device");
  }

  void null_device(const Node* call, const Node* path) {
    some_call_ = call;
    edits_.insert(path->end, " if " + dialect_.is_first(call) + " else " + dialect_.module_name("os", call) +
                                 ".devnull");
    edits_.explain(call->line, std::string(tree_.text(*path)) + " is written by rank 0 only",
                   "the other ranks write to the null device");
  }

  void visit_bar(const Node* call) {
    some_call_ = call;
    const std::string others = dialect_.is_other(call);
    if (const Node* given = names_.argument(call, "disable", -1)) {
      edits_.replace(*given, "(" + std::string(tree_.text(*given)) + ") or " + others);
    } else {
      edits_.add_argument(*call, "disable=" + others);
    }
    edits_.explain(call->line, "the progress bar is shown by rank 0", "one bar, not one for each process");
  }

  void visit_board(const Node* call) {
    some_call_ = call;
    if (call->parent->is(Kind::with_item)) {
      refuse(call,
             "keep the SummaryWriter in a variable and close it at the end, so that only rank 0 has one");
    }
    const bool whole = call->parent->is(Kind::assign) || call->parent->is(Kind::ann_assign) ||
                       call->parent->is(Kind::return_) || call->role == "args" ||
                       call->parent->is(Kind::keyword);
    edits_.insert(call->begin, whole ? "" : "(");
    const std::string other = is_asked_for_folder(call)
                                  ? dialect_.module_name("types", call) +
                                        ".SimpleNamespace(log_dir=" + dialect_.module_name("os", call) +
                                        ".devnull)"
                                  : "None";
    edits_.insert(call->end, " if " + dialect_.is_first(call) + " else " + other + (whole ? "" : ")"));
    edits_.explain(call->line, "only rank 0 has a SummaryWriter", "one process writes the event file");
  }

  /// Whether the script reads the log_dir of a SummaryWriter.
  bool is_asked_for_folder(const Node* board) const {
    return std::any_of(tree_.nodes().begin(), tree_.nodes().end(), [&](const Node& node) {
      if (!node.is(Kind::attribute) || node.text != "log_dir" || node.store) return false;
      const auto origins = names_.origins(node.child("value"));
      return std::find(origins.begin(), origins.end(), board) != origins.end();
    });
  }

  void visit_wandb(const Node* call) {
    some_call_ = call;
    if (names_.argument(call, "mode", -1) != nullptr)
      refuse(call, "remove `mode`, so that it can be \"disabled\" on every rank but 0");
    edits_.add_argument(*call, "mode=None if " + dialect_.is_first(call) + " else \"disabled\"");
    edits_.explain(call->line, "wandb is disabled on every rank but 0", "one run is recorded");
  }

  void visit_log(const Node* call, const std::string& callee) {
    some_call_ = call;
    logs_ = true;
    logging_ = dialect_.module_name("logging", dialect_.script());
    const Node* path = callee == "logging.FileHandler"   ? names_.argument(call, "filename", 0)
                       : callee == "logging.basicConfig" ? names_.argument(call, "filename", -1)
                                                         : nullptr;
    if (path != nullptr) null_device(call, path);
  }

  const Names& names_;
  const Tree& tree_;
  Edits& edits_;
  Dialect& dialect_;
  const std::function<bool(const Node*)>& communicates_;
  const std::function<bool(const Node*)>& handled_;
  const Node* some_call_ = nullptr;
  bool logs_ = false;
  std::string logging_;
};

}  // namespace

void write_outputs(const Names& names, Edits& edits, Dialect& dialect,
                   const std::function<bool(const Node*)>& communicates,
                   const std::function<bool(const Node*)>& handled) {
  Outputs(names, edits, dialect, communicates, handled).write();
}

}  // namespace telar::weave
