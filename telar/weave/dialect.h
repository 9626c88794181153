#pragma once

#include <set>
#include <string>
#include <vector>

#include "telar/weave/edits.h"
#include "telar/weave/names.h"

namespace telar::weave {

enum class Target { ddp, horovod, tf_distribute };

/// What the person chose.
struct Choices {
  Target target = Target::ddp;
  /// Each process takes its part of the author's batch, so that the learning rate and the number of steps stay. Otherwise each
  /// process takes batches of the author's size, and the learning rate is multiplied by the number of processes.
  bool keep_global_batch = false;
  /// Each process sees all samples in an order of its own, and the epochs are divided by the number of processes. Otherwise
  /// the samples are shared out and the epochs stay.
  bool divide_epochs = false;
  /// Over how many epochs the learning rate grows from the author's to that of all processes; 0: at once.
  int warmup_epochs = 0;
};

/// The few expressions in which the targets differ, and what the edits made so far need at the top of the file.
class Dialect {
 public:
  Dialect(const Names& names, Edits& edits, Choices choices);

  const Choices& choices() const { return choices_; }
  bool is_horovod() const { return choices_.target == Target::horovod; }
  bool is_tf_distribute() const { return choices_.target == Target::tf_distribute; }
  /// What waits for all processes, where the target's module has no barrier().
  void set_barrier(std::string text) { barrier_ = std::move(text); }
  /// `dist.get_rank()`; `at`: the node whose edit uses it, which decides where initialising must happen.
  std::string rank(const Node* at);
  std::string size(const Node* at);
  std::string local_rank(const Node* at);
  std::string barrier(const Node* at);
  /// A condition that holds on the one process that writes, and its opposite.
  std::string is_first(const Node* at);
  std::string is_other(const Node* at);
  /// The name of the target's module in the woven file: `dist`, `hvd`.
  const std::string& module() const { return module_; }

  /// Asks for an import line, a function, or a statement right after initialising (each once).
  void import(const std::string& line) { imports_.insert(line); }
  /// Imports a module under its own name unless the file has it, and returns what it is called there.
  std::string module_name(const std::string& qualified);
  void function(const std::vector<std::string>& lines);
  void at_start(const std::vector<std::string>& lines);
  bool is_used() const { return !uses_.empty(); }
  void use(const Node* at) { uses_.push_back(at); }

  /// Writes imports, functions, initialisation (`start` lines first) and the end into the file.
  void write(const std::vector<std::string>& start, const std::vector<std::string>& finish);

 private:
  const Node* last_import(size_t before) const;
  const Node* main_guard() const;
  size_t first_use_of_module() const;

  const Names& names_;
  Edits& edits_;
  Choices choices_;
  std::string module_;
  std::string barrier_;
  std::set<std::string> imports_;
  std::vector<std::vector<std::string>> functions_;
  std::vector<std::string> start_;
  std::vector<const Node*> uses_;
};

/// `x * factor` for the text of an expression.
std::string times(const Tree& tree, const Node& expression, const std::string& factor);
std::string divided(const Tree& tree, const Node& expression, const std::string& divisor);

/// A list of lines from one text.
std::vector<std::string> lines(const std::string& text);

}  // namespace telar::weave
