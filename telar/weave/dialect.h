#pragma once

#include <functional>
#include <map>
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
  /// Each process evaluates its share of the batches, and the figures are added up. Otherwise each evaluates all.
  bool share_evaluation = false;
};

/// The few expressions in which the targets differ, and what the edits made so far need at the top of the file.
class Dialect {
 public:
  Dialect(const Names& names, Edits& edits, Choices choices);

  const Choices& choices() const { return choices_; }
  bool is_horovod() const { return choices_.target == Target::horovod; }
  bool is_tf_distribute() const { return choices_.target == Target::tf_distribute; }
  /// What waits for all processes, where the target's module has no barrier().
  void set_barrier(std::function<std::string(const Node*)> text) { barrier_ = std::move(text); }
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

  /// Asks for an import line or a function (each once) in the file that `at` is in, or a statement right after initialising.
  void import(const std::string& line, const Node* at) { needed_in(at).imports.insert(line); }
  /// Imports a module under its own name unless that file has it, and returns what it is called there.
  std::string module_name(const std::string& qualified, const Node* at);
  /// Notes that what is written relies on an import of the script's own, which must then stand before it.
  void rely_on(const Node* statement, const std::string& line, const Node* at);
  void function(const std::vector<std::string>& lines, const Node* at);
  void at_start(const std::vector<std::string>& lines);
  void use(const Node* at) { uses_.push_back(at); }
  /// Numbers that are drawn (`draws`) when modules are imported and in the script, and the calls that seed them: whether all are
  /// drawn behind a seed. If not, what stands at the start comes before the imports of the files that draw.
  bool are_seeded(const std::vector<const Node*>& draws, const std::vector<const Node*>& seeds);
  /// The module that is run: for what belongs to the program as a whole.
  const Node* script() const { return names_.tree().root(); }

  /// Writes imports and functions into the files that need them, `import_line` for the target's module among them (empty: it
  /// has none, and only the script can be woven), and into the
  /// script initialisation (`start` lines first) and the end.
  void write(const std::string& import_line, const std::vector<std::string>& start,
             const std::vector<std::string>& finish);

 private:
  struct Needed {
    std::set<std::string> imports;
    std::vector<std::vector<std::string>> functions;
  };
  Needed& needed_in(const Node* at) { return needed_[module_of(at)]; }
  const Node* last_import(const Node* module, size_t before) const;
  const Node* find_main_guard() const;
  bool runs_on_import(const Node* node) const;
  size_t first_use_of_module(const Node* module) const;
  size_t first_import_with_use() const;
  std::vector<std::string> top_of(const Needed& needed) const;
  void write_imported(const Node* module, const Needed& needed);
  void write_first(size_t first_use, const std::vector<std::string>& top);
  void write_last(const Node& last, const std::vector<std::string>& finish);

  const Names& names_;
  Edits& edits_;
  Choices choices_;
  std::string module_;
  const Node* main_guard_;  // of the script; null when it has none
  std::function<std::string(const Node*)> barrier_;
  std::map<const Node*, Needed> needed_;  // by module
  std::vector<std::string> start_;
  std::vector<std::pair<const Node*, std::string>> relied_on_;
  std::vector<const Node*> uses_;
  std::vector<const Node*> early_;  ///< what runs when a file is imported and relies on the start
};

/// `x * factor` for the text of an expression.
std::string times(const Tree& tree, const Node& expression, const std::string& factor);
/// `x // divisor`, and with the fraction `x / divisor`.
std::string divided(const Tree& tree, const Node& expression, const std::string& divisor);
std::string quotient(const Tree& tree, const Node& expression, const std::string& divisor);

/// A list of lines from one text.
std::vector<std::string> lines(const std::string& text);

}  // namespace telar::weave
