#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "telar/weave/python/names.h"
#include "telar/weave/write/edits.h"

namespace telar::weave {

enum class Target { ddp, horovod, tf_distribute, telar };

/// What the user chose.
struct Choices {
  Target target = Target::ddp;
  /// Divides the script's batch among the processes, so the learning rate and the number of steps do not
  /// change. Otherwise each process takes batches of the script's size, and the learning rate is multiplied
  /// by the number of processes.
  bool keep_global_batch = false;
  /// Each process sees all samples in its own order, and the number of epochs is divided by the number of
  /// processes. Otherwise the samples are divided among the processes, and the number of epochs does not
  /// change.
  bool divide_epochs = false;
  /// Number of epochs over which the learning rate grows from the script's rate to the rate of all processes;
  /// 0: none.
  int warmup_epochs = 0;
  /// Each process evaluates its share of the batches, and the sums are added up. Otherwise each evaluates all
  /// batches.
  bool share_evaluation = false;
  /// Numbers that are only shown, and that weave cannot join over the processes, stay those of each process.
  /// Otherwise such a script is refused.
  bool only_training = false;
  /// Of the target telar: the strategy and its options as a dictionary of Python.
  std::string telar_options;
};

/// The few expressions in which the targets differ. It also collects what the edits need at the top of a
/// file.
class Dialect {
 public:
  Dialect(const Names& names, Edits& edits, Choices choices);

  const Choices& choices() const { return choices_; }
  bool is_horovod() const { return choices_.target == Target::horovod; }
  bool is_tf_distribute() const { return choices_.target == Target::tf_distribute; }
  /// Sets the expression that waits for all processes, for a target whose module has no barrier().
  void set_barrier(std::function<std::string(const Node*)> text) { barrier_ = std::move(text); }
  /// `dist.get_rank()`. `at`: the node whose edit uses it; this decides where the initialisation must be
  /// inserted.
  std::string rank(const Node* at);
  std::string size(const Node* at);
  std::string local_rank(const Node* at);
  std::string barrier(const Node* at);
  /// A condition that is true only on the process that writes, and its negation.
  std::string is_first(const Node* at);
  std::string is_other(const Node* at);
  /// The name of the target's module in the woven file: `dist`, `hvd`.
  const std::string& module() const { return module_; }

  /// Requests an import line or a function (each is written once) for the file that contains `at`, or
  /// statements that follow the initialisation.
  void import(const std::string& line, const Node* at) { needed_in(at).imports.insert(line); }
  /// The name of a module in the file that contains `at`; adds the import if the file lacks it.
  std::string module_name(const std::string& qualified, const Node* at);
  /// Notes that an edit at `at` uses the script's own import `statement`. If the edit runs earlier than this
  /// import, `line` is written above it.
  void rely_on(const Node* statement, const std::string& line, const Node* at);
  void function(const std::vector<std::string>& lines, const Node* at);
  void at_start(const std::vector<std::string>& lines);
  void use(const Node* at) { uses_.push_back(at); }
  /// Whether all random numbers are drawn after a seed. `draws`: the calls that draw them; `seeds`: the calls
  /// that seed. If a file that the script imports draws unseeded numbers while it is imported, the
  /// initialisation comes before its import.
  bool are_seeded(const std::vector<const Node*>& draws, const std::vector<const Node*>& seeds);
  /// The module that is run; used for edits that belong to the program as a whole.
  const Node* script() const { return names_.tree().root(); }

  /// Writes imports and functions into the files that need them, and the initialisation (`start` lines first)
  /// and the end into the script. `import_line`: the import of the target's module; if it is empty, there is
  /// none, and only the script can be woven. `alone`: the initialisation of an imported file that is run by
  /// itself, as one process. Throws Refusal.
  void write(const std::string& import_line, const std::vector<std::string>& start,
             const std::vector<std::string>& finish, const std::vector<std::string>& alone);

 private:
  struct Needed {
    std::set<std::string> imports;
    std::vector<std::vector<std::string>> functions;
    bool local_rank = false;
  };
  Needed& needed_in(const Node* at) { return needed_[module_of(at)]; }
  const Node* last_import(const Node* module, size_t before) const;
  const Node* find_main_guard() const;
  bool runs_on_import(const Node* node) const;
  size_t first_use_of_module(const Node* module) const;
  size_t first_import_with_use() const;
  std::vector<std::string> top_of(const Needed& needed) const;
  void write_imported(const Node* module, const Needed& needed, const std::vector<std::string>& alone);
  void write_first(size_t first_use, const std::vector<std::string>& top);
  void write_last(const Node& last, const std::vector<std::string>& finish);

  const Names& names_;
  Edits& edits_;
  Choices choices_;
  std::string module_;
  const Node* main_guard_;  // of the script; null if it has none
  std::function<std::string(const Node*)> barrier_;
  std::map<const Node*, Needed> needed_;  // by module
  std::vector<std::string> start_;
  std::vector<std::pair<const Node*, std::string>> relied_on_;
  std::vector<const Node*> uses_;
  std::vector<const Node*> early_;  ///< draws without a seed while a file is imported
};

/// `x * factor` for the text of an expression.
std::string times(const Tree& tree, const Node& expression, const std::string& factor);
/// `x // divisor`, and `x / divisor` for the quotient with its fraction.
std::string divided(const Tree& tree, const Node& expression, const std::string& divisor);
std::string quotient(const Tree& tree, const Node& expression, const std::string& divisor);

/// The lines of a text.
std::vector<std::string> lines(const std::string& text);

}  // namespace telar::weave
