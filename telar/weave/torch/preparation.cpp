// Data that a script downloads, unpacks or makes before it trains: the first process of each host does it,
// and the others wait.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "telar/weave/torch/values.h"

namespace telar::weave {

namespace {

/// Functions that fetch or unpack files.
bool fetches(const std::string& callee) {
  static const std::unordered_set<std::string_view> names = {
      "urllib.request.urlretrieve",
      "torch.hub.download_url_to_file",
      "torchvision.datasets.utils.download_url",
      "torchvision.datasets.utils.download_and_extract_archive",
      "torchvision.datasets.utils.extract_archive",
      "torchtext.utils.download_from_url",
      "wget.download",
      "gdown.download",
      "gdown.download_folder",
      "shutil.unpack_archive",
      "nltk.download",
      "os.system",
      "subprocess.run",
      "subprocess.call",
      "subprocess.check_call"};
  return names.contains(callee);
}

bool makes_archive(const std::string& callee) {
  return callee == "tarfile.open" || callee == "zipfile.ZipFile";
}

class Preparation {
 public:
  explicit Preparation(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const Node* call : w_.names.calls()) {
      const Node* own = w_.names.definition(call->child("func"));
      if ((download_of(call) != nullptr || makes_files(call)) && is_dataset(own)) made_once_.insert(own);
    }
    for (const Node* own : made_once_) w_.prepared.push_back(own);
    for (const Node* call : w_.names.calls()) {
      if ((download_of(call) != nullptr || makes_files(call)) && !is_made_once(call)) bracket(call);
    }
    for (const Node* call : w_.names.calls()) {
      if (prepares(call)) visit(call);
      if (writes(call) && is_in_constructor(call)) once(*whole_of(call), call);
    }
  }

 private:
  /// The argument by which a call may download a data set; null if there is none.
  const Node* download_of(const Node* call) const {
    static const std::unordered_set<std::string_view> fifth = {
        "MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100", "SVHN", "USPS"};
    const std::string& callee = w_.names.callee(call);
    const Node* keyword = w_.names.keyword(call, "download");
    const Node* given = keyword == nullptr ? nullptr : keyword->child("value");
    if (keyword != nullptr && !is_inside(keyword, call)) return nullptr;
    const std::string_view library = "torchvision.datasets.";
    if (given == nullptr && callee.starts_with(library) && call->list("args").size() > 4 &&
        fifth.contains(std::string_view(callee).substr(library.size())))
      given = call->list("args")[4];
    if (given == nullptr || is_true(given)) return given;
    // A function of the program hands it on; the call that it makes is found by itself.
    const Node* own = w_.names.definition(call->child("func"));
    const bool handed_on = own != nullptr && own->is_function();
    return given->is(Kind::constant) || handed_on ? nullptr : given;
  }

  static bool is_true(const Node* node) { return node->literal == Literal::boolean && node->text == "True"; }

  /// Whether a call is made by a data set that the first process of a host creates before the others.
  bool is_made_once(const Node* call) const { return made_once_.contains(class_of(call)); }

  bool is_dataset(const Node* class_def) const {
    return class_def != nullptr && class_def->is(Kind::class_def) &&
           w_.names.derives(class_def, {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset"});
  }

  /// Whether a call fetches, packs or unpacks files.
  bool prepares(const Node* call) const {
    const std::string& callee = w_.names.callee(call);
    const Node* function = call->child("func");
    if (fetches(callee)) return true;
    if (makes_archive(callee)) {
      const Node* mode = w_.names.argument(call, "mode", 1);
      return mode != nullptr && mode->is_string() &&
             mode->text.find_first_of("wax") != std::string_view::npos;
    }
    return function->is(Kind::attribute) && w_.names.definition(function) == nullptr &&
           (function->text == "extractall" ||
            (function->text == "extract" && is_archive(function->child("value"))));
  }

  bool is_archive(const Node* expression) const {
    for (const Node* origin : w_.names.origins(expression)) {
      if (origin->is(Kind::call) && makes_archive(w_.names.callee(origin))) return true;
    }
    return false;
  }

  /// Whether a data set's own constructor makes a call.
  bool is_in_constructor(const Node* call) const {
    const Node* function = function_of(call);
    return function != nullptr && function->text == "__init__" && is_dataset(class_of(call)) &&
           !is_done(statement_of(call));
  }

  /// Whether a call writes a file.
  bool writes(const Node* call) const {
    const std::string& callee = w_.names.callee(call);
    if (callee == "open" || callee == "io.open" || callee == "gzip.open") {
      const Node* mode = w_.names.argument(call, "mode", 1);
      return mode != nullptr && mode->is_string() &&
             mode->text.find_first_of("wax") != std::string_view::npos;
    }
    return callee == "torch.save" || callee == "numpy.save" || callee == "numpy.savez" || prepares(call);
  }

  /// Whether a call creates a data set of the program that makes its files when it is created.
  bool makes_files(const Node* call) const {
    const Node* own = w_.names.definition(call->child("func"));
    if (own == nullptr || !own->is(Kind::class_def) || !is_dataset(own)) return false;
    const Node* init = w_.names.method(own, "__init__");
    bool found = false;
    if (init != nullptr) {
      for (const Node* statement : init->list("body"))
        found = found || reaches(w_.names, statement, [&](const Node* one) { return writes(one); });
    }
    return found;
  }

  bool asks_for_file(const Node& test) const {
    bool asks = false;
    walk(test, [&](const Node& node) {
      const std::string callee = node.is(Kind::call) ? w_.names.callee(&node) : "";
      const Node* function = node.is(Kind::call) ? node.child("func") : nullptr;
      asks = asks || callee == "os.path.exists" || callee == "os.path.isfile" || callee == "os.path.isdir" ||
             callee == "os.listdir" ||
             (function != nullptr && function->is(Kind::attribute) &&
              (function->text == "exists" || function->text == "is_file" || function->text == "is_dir"));
      return !asks;
    });
    return asks;
  }

  /// The statement of a call with what belongs to it: the archive's `with`, the `if` that asks for the file.
  const Node* whole_of(const Node* call) const {
    const Node* statement = statement_of(call);
    for (;;) {
      const Node* around = statement->parent;
      const bool block = around->is(Kind::with) || around->is(Kind::try_) ||
                         (around->is(Kind::if_) && asks_for_file(*around->child("test"))) ||
                         (around->is(Kind::for_) && !is_training(around));
      if (!block) return statement;
      statement = around;
    }
  }

  bool is_training(const Node* statement) const {
    return std::any_of(w_.program.loops.begin(), w_.program.loops.end(), [&](const TorchLoop& loop) {
      return loop.trains && (is_inside(loop.loop, statement) || is_inside(statement, loop.loop));
    });
  }

  /// Whether the program needs a statement's variables after it, or leaves its function by it.
  bool is_needed(const Node* statement) const {
    bool needed = false;
    walk(*statement, [&](const Node& node) {
      if (node.is(Kind::return_)) needed = true;
      if (node.is(Kind::attribute) && node.store && node.child("value")->is(Kind::name) &&
          node.child("value")->text == "self")
        needed = true;
      if (!node.store || !node.is(Kind::name)) return !needed;
      needed = needed || is_read_after(w_.names, statement, node.text);
      for (const Node* mention : w_.names.mentions(w_.names.place(&node)))
        needed = needed || (!mention->store && function_of(mention) != function_of(statement));
      return !needed;
    });
    return needed;
  }

  static bool leaves(const Node& branch) {
    bool found = false;
    walk(branch, [&](const Node& node) {
      found = found || node.is(Kind::return_) || node.is(Kind::raise);
      return !found;
    });
    return found;
  }

  /// Whether a function returns elsewhere if it finds its files: the other processes would not come here.
  bool returns_elsewhere(const Node* function, const Node* statement) const {
    bool asks = false;
    walk(*function, [&](const Node& node) {
      if (&node == statement || is_done(&node)) return false;
      asks = asks || (node.is(Kind::if_) && asks_for_file(*node.child("test")) && leaves(node));
      return !asks;
    });
    return asks;
  }

  void visit(const Node* call) {
    const Node* statement = whole_of(call);
    if (is_training(statement)) {
      if (is_inside_loop(statement))
        w_.refuse(call, "each process would do this in its own training steps; do it before the training");
      statement = statement_of(call);
    }
    if (is_done(statement)) return;
    // Where the data set is created, the first process makes its files before the others come.
    if (is_dataset(class_of(call))) return once(*statement, call);
    const Node* function = function_of(statement);
    if (function != nullptr && returns_elsewhere(function, statement)) {
      for (const Node* caller : w_.names.calls_of(function)) bracket(caller);
      return once(*statement, call);
    }
    if (is_needed(statement)) statement = statement_of(call);
    if (is_needed(statement)) return bracket(call);
    once(*statement, call);
    w_.edits.after(*statement, {w_.dialect.barrier(call)});
  }

  /// Lets only the first process of a host run a statement, if the others do not need its variables.
  void once(const Node& statement, const Node* call) {
    if (is_needed(&statement)) return;
    done_.push_back(&statement);
    w_.prepared.push_back(&statement);
    w_.edits.guard(statement, w_.dialect.local_rank(call) + " == 0");
    w_.edits.explain(statement.line, "only the first process of a host: " + first_line(&statement),
                     "the others wait and find the files");
  }

  bool is_inside_loop(const Node* statement) const {
    return std::any_of(w_.program.loops.begin(), w_.program.loops.end(),
                       [&](const TorchLoop& loop) { return loop.trains && is_inside(statement, loop.loop); });
  }

  bool is_done(const Node* node) const {
    return std::any_of(done_.begin(), done_.end(), [&](const Node* one) { return is_inside(node, one); });
  }

  std::string first_line(const Node* node) const {
    const std::string text = w_.text(*node);
    return text.substr(0, text.find_first_of("\r\n"));
  }

  /// The first process of a host runs a statement; then the others run it, and find the files.
  void bracket(const Node* call) {
    const Node* statement = statement_of(call);
    for (const Node* around = call; around != statement; around = around->parent) {
      if (around->is(Kind::lambda)) return bracket_callers(call);
    }
    if (!statement->is(Kind::assign) && !statement->is(Kind::expr) && !statement->is(Kind::return_)) {
      w_.refuse(
          call,
          "assign the downloaded dataset to a variable first, so that one process can download while the others wait");
    }
    if (is_done(statement)) return;
    done_.push_back(statement);
    const std::string local = w_.dialect.local_rank(call);
    w_.edits.before(*statement, {"if " + local + " != 0:", "    " + w_.dialect.barrier(call)});
    std::vector<std::string> after = {"if " + local + " == 0:", "    " + w_.dialect.barrier(call)};
    if (statement->is(Kind::return_)) {
      const std::string name = w_.names.fresh("downloaded");
      w_.edits.replace(statement->begin, statement->child("value")->begin, name + " = ");
      after.push_back("return " + name);
    }
    w_.edits.after(*statement, after);
    w_.edits.explain(call->line, "the first process of a host downloads",
                     "the others wait and find the files");
  }

  /// A lambda downloads where it is called, so the calls of the function that has it are made in turn.
  void bracket_callers(const Node* call) {
    const Node* function = function_of(call);
    if (function == nullptr || w_.names.calls_of(function).empty()) {
      w_.refuse(
          call,
          "weave does not see where this lambda is called; create the dataset in a statement, so that one process can download while the others wait");
    }
    for (const Node* caller : w_.names.calls_of(function)) bracket(caller);
  }

  TorchWeaving& w_;
  std::vector<const Node*> done_;    // statements
  std::set<const Node*> made_once_;  // classes of data sets that make their files
};

}  // namespace

void write_preparation(TorchWeaving& weaving) { Preparation(weaving).write(); }

}  // namespace telar::weave
