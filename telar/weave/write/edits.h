#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telar/weave/python/syntax.h"

namespace telar::weave {

/// A construct that weave does not understand: its line, its text, and what the user must decide.
struct Refusal {
  int line = 0;  ///< in the tree
  std::string construct;
  std::string decision;
};

/// One change, for --explain.
struct Explanation {
  int line = 0;  ///< in the tree
  std::string what;
  std::string why;
};

/// A file after its edits.
struct Edited {
  std::string text;
  /// The text with `pass` in place of the statements that have no edits. If this is a valid program, so is
  /// the text; it takes less time to parse.
  std::string outline;
};

/// Edits of a text: replacements of byte ranges. All bytes outside them stay as they are.
class Edits {
 public:
  explicit Edits(const Tree& tree) : tree_(tree) {}

  /// Replaces the bytes [begin, end). Edits may touch but must not overlap; otherwise apply() throws Refusal.
  void replace(size_t begin, size_t end, std::string text);
  void replace(const Node& node, std::string text) { replace(node.begin, node.end, std::move(text)); }
  void insert(size_t at, std::string text) { replace(at, at, std::move(text)); }
  /// Adds whole lines before or after a statement, with its indentation; between `a(); b()`, the line is
  /// split. Throws Refusal if the statement shares its line with the header of its block.
  void before(const Node& statement, const std::vector<std::string>& lines);
  void after(const Node& statement, const std::vector<std::string>& lines);
  /// Puts a statement under `if condition:`. Adjacent statements with the same condition share one `if`; one
  /// that is already under it stays as it is.
  void guard(const Node& statement, const std::string& condition);
  /// The same for any header that opens a block, such as `with lock:`.
  void guard_with(const Node& statement, const std::string& header);
  /// Adds the argument `text` (`name=value`) to a call.
  void add_argument(const Node& call, const std::string& text);
  /// Removes an argument (or keyword) of a call and its comma.
  void remove_argument(const Node& call, const Node& argument);
  /// Removes a statement and its line; leaves `pass` if the block would be empty.
  void remove(const Node& statement);

  /// Records a change for --explain. `line` 0: a change of the program as a whole.
  void explain(int line, std::string what, std::string why);
  const std::vector<Explanation>& explanations() const { return explanations_; }
  /// Records what was left as it is although it differs between the processes.
  void note(int line, std::string what, std::string why);
  const std::vector<Explanation>& notes() const { return notes_; }
  bool empty() const { return changes_.empty() && guards_.empty(); }

  /// The files of the tree with all edits applied. Throws Refusal if edits overlap.
  std::vector<Edited> apply();

 private:
  struct Change {
    size_t begin = 0;
    size_t end = 0;
    std::string text;
    bool follows = false;  // what ends before it: it comes before what begins at the same offset
  };
  struct Guarded {
    const Node* statement;
    std::string header;        // `if …:`, `with …:`
    std::ptrdiff_t depth = 0;  // the number of guards around it
  };
  void apply_guards();
  std::string written(const Part& part, std::span<const Change> changes) const;
  void leave_out(Nodes block, std::vector<Change>& left_out) const;
  void indent_lines(const Node& statement, const std::string& step);
  bool shares_line(const Node& statement) const;
  std::vector<const Node*> on_line_of(const Node& statement) const;
  void split_before(const Node& statement, const std::vector<std::string>& lines, bool follows);
  std::string step_of(const Node& statement) const;

  const Tree& tree_;
  std::vector<Change> changes_;
  std::vector<Guarded> guards_;
  std::vector<const Node*> removed_;
  std::vector<Explanation> explanations_;
  std::vector<Explanation> notes_;
};

/// The first byte of a statement, including its decorators.
size_t statement_begin(const Node& statement);

}  // namespace telar::weave
