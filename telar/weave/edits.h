#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telar/weave/syntax.h"

namespace telar::weave {

/// Something that weave does not understand: where, what stands there, and what the person must decide.
struct Refusal {
  int line = 0;  ///< of the tree
  std::string construct;
  std::string decision;
};

/// One change, for --explain.
struct Explanation {
  int line = 0;  ///< of the tree
  std::string what;
  std::string why;
};

/// A file with its edits.
struct Edited {
  std::string text;
  /// The text with `pass` in place of the statements that nothing was changed in: when this is a program of Python, the text is
  /// one too, and it is sooner read.
  std::string outline;
};

/// Changes of a text, as replaced spans of bytes; everything outside of them stays as it is.
class Edits {
 public:
  explicit Edits(const Tree& tree) : tree_(tree) {}

  /// Replaces the bytes [begin, end). Edits may touch but not overlap; throws Refusal when they do.
  void replace(size_t begin, size_t end, std::string text);
  void replace(const Node& node, std::string text) { replace(node.begin, node.end, std::move(text)); }
  void insert(size_t at, std::string text) { replace(at, at, std::move(text)); }
  /// Adds whole lines before or after a statement, indented as it is. A statement that shares its line with another is
  /// refused.
  void before(const Node& statement, const std::vector<std::string>& lines);
  void after(const Node& statement, const std::vector<std::string>& lines);
  /// Puts a statement under `if condition:`. Neighbours under the same condition share one `if`.
  void guard(const Node& statement, const std::string& condition);
  /// The same under any line that opens a block, as in `with lock:`.
  void guard_with(const Node& statement, const std::string& header);
  /// Adds `name=value` to a call's arguments.
  void add_argument(const Node& call, const std::string& text);
  /// Removes an argument (or keyword) of a call with its comma.
  void remove_argument(const Node& call, const Node& argument);
  /// Removes a statement with its line; `pass` stays when it is alone in its block.
  void remove(const Node& statement);

  /// `line` 0: what is done to the program as a whole.
  void explain(int line, std::string what, std::string why);
  const std::vector<Explanation>& explanations() const { return explanations_; }
  bool empty() const { return changes_.empty() && guards_.empty(); }

  /// The tree's files with every edit in them.
  std::vector<Edited> apply();

 private:
  struct Change {
    size_t begin = 0;
    size_t end = 0;
    std::string text;
    int order = 0;  // of insertion, for those at the same place
  };
  struct Guarded {
    const Node* statement;
    std::string header;  // `if …:`, `with …:`
  };
  void apply_guards();
  std::string written(const Part& part, std::span<const Change> changes) const;
  void leave_out(Nodes block, std::vector<Change>& left_out) const;
  void indent_lines(const Node& statement, const std::string& step);
  bool shares_line(const Node& statement) const;
  std::string step_of(const Node& statement) const;

  const Tree& tree_;
  std::vector<Change> changes_;
  std::vector<Guarded> guards_;
  std::vector<const Node*> removed_;
  std::vector<Explanation> explanations_;
};

/// The first byte of a statement, its decorators included.
size_t statement_begin(const Node& statement);

}  // namespace telar::weave
