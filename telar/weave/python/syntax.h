#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace telar::weave {

/// The kind of a node of Python's syntax tree, with the names of Python's `ast`. `other` stands for kinds
/// that no analysis needs.
enum class Kind : uint8_t {
  other,
  // Statements.
  module,
  function_def,
  async_function_def,
  class_def,
  return_,
  assign,
  aug_assign,
  ann_assign,
  for_,
  async_for,
  while_,
  if_,
  with,
  async_with,
  raise,
  try_,
  import,
  import_from,
  global,
  nonlocal,
  expr,
  pass,
  break_,
  continue_,
  delete_,
  // Expressions.
  bool_op,
  named_expr,
  bin_op,
  unary_op,
  lambda,
  if_exp,
  dict,
  list_comp,
  set_comp,
  dict_comp,
  generator,
  yield,
  compare,
  call,
  joined_str,
  constant,
  attribute,
  subscript,
  starred,
  name,
  list,
  tuple,
  // Parts.
  arguments,
  arg,
  keyword,
  alias,
  with_item,
  except_handler,
  comprehension,
  load,
  // Operators that an analysis needs.
  add,
  sub,
  mult,
  div,
  floor_div,
  mod,
  usub
};

/// The kind for a class name of Python's `ast`; Kind::other if unknown.
Kind kind_of(std::string_view name);

/// The type of a constant.
enum class Literal : uint8_t { none, string, bytes, number, boolean, null, ellipsis };

struct Node;

/// The first eight letters of a field's name as a number. They are different for all of Python's fields.
/// These numbers are compared a million times, so they are computed at compile time.
constexpr uint64_t key_of(std::string_view name) {
  uint64_t key = 0;
  for (size_t i = 0; i < 8; ++i)
    key = key << 8 | (i < name.size() ? static_cast<unsigned char>(name[i]) : 0U);
  return key;
}

/// The children of a node under one name: `body`, `args`, `value`. An absent child in a list (the missing
/// default of a keyword-only parameter, the key of `**other` in a dict) is null.
using Nodes = std::span<Node* const>;
struct Field {
  uint64_t key = 0;  ///< of its name
  Nodes nodes;
};

/// A node: its kind, names, children and byte range. The tree owns all memory that it refers to.
struct Node {
  Kind kind = Kind::other;
  Literal literal = Literal::none;
  bool store = false;           ///< a name, attribute or subscript that is assigned or deleted
  bool inside_fstring = false;  ///< its range is unreliable (before Python 3.12)
  uint32_t number = 0;          ///< index in its tree
  int line = 0;                 ///< from 1; 0 for nodes without a position
  int level = 0;                ///< of `from ..x import y`: the number of dots
  size_t begin = 0;
  size_t end = 0;
  /// The name of a name, attribute, function, class, parameter, keyword or module; or the value of a constant
  /// (the characters of a string, otherwise the source text).
  std::string_view text;
  std::string_view as_name;                        ///< the alias of an import
  std::span<const std::string_view> global_names;  ///< of `global` and `nonlocal`
  Node* parent = nullptr;
  std::string_view role;  ///< the name of the parent's field that holds it
  std::span<const Field> fields;

  /// The child called `name`; null if there is none.
  Node* child(std::string_view name) const { return first(key_of(name)); }
  /// The children called `name`.
  Nodes list(std::string_view name) const { return under(key_of(name)); }
  Node* first(uint64_t key) const {
    const Nodes nodes = under(key);
    return nodes.empty() ? nullptr : nodes.front();
  }
  Nodes under(uint64_t key) const {
    for (const Field& field : fields) {
      if (field.key == key) return field.nodes;
    }
    return {};
  }
  bool is(Kind which) const { return kind == which; }
  bool is_function() const { return kind == Kind::function_def || kind == Kind::async_function_def; }
  bool is_statement() const { return kind >= Kind::module && kind <= Kind::delete_; }
  bool is_string() const { return literal == Literal::string; }
};

/// A Python file: its name for messages, its path within its project (for a single script, the same), its
/// text in UTF-8.
struct SourceFile {
  std::string name;
  std::string path;
  std::string text;
};

/// One file within the text of a tree.
struct Part {
  std::string name;
  std::string path;
  std::string newline;  ///< line ending of its first line: "\n", "\r\n" or "\r"
  size_t begin = 0;
  size_t end = 0;  ///< after its last character; the text up to the next file belongs to none
  int first_line = 1;
  bool ends_open = false;  ///< its last line had no line ending; one was added
  Node* root = nullptr;    ///< its module
  /// Of an imported file, the first line of the block under `if __name__ == "__main__":`, which is not in the tree; 0:
  /// there is none.
  int main_block = 0;
};

/// The files of a Python program as one text, and the trees of their modules. The script is the last file.
/// Lines and offsets count through the whole text, so each position is unique; `place` converts one to its
/// file. A file follows those that it imports, so of two statements of modules, the earlier one runs first.
/// Moving a tree does not move its nodes.
class Tree {
 public:
  explicit Tree(std::vector<SourceFile> files);
  Tree(Tree&&) = default;
  Tree& operator=(Tree&&) = delete;
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() = default;

  Node* add(Kind kind);
  /// Memory for `size` objects that lives as long as the tree.
  template <typename Object>
  std::span<Object> make_room(size_t size) {
    static_assert(std::is_trivially_destructible_v<Object>);
    Object* const first = std::pmr::polymorphic_allocator<Object>(memory_.get()).allocate(size);
    std::uninitialized_value_construct_n(first, size);
    return {first, size};
  }
  /// Sets the statements of a module after all of them have been read.
  void set_body(Node& module, const std::vector<Node*>& statements);
  /// A copy of a text that lives as long as the tree.
  std::string_view keep(std::string_view text);

  const std::vector<Part>& parts() const { return parts_; }
  std::vector<Part>& parts() { return parts_; }
  /// The file that contains an offset, and the script.
  const Part& part_at(size_t offset) const;
  const Part& main() const { return parts_.back(); }
  const std::string& source() const { return source_; }
  /// The module of the script.
  Node* root() const { return parts_.back().root; }
  /// All nodes, in the order of their numbers.
  const std::pmr::deque<Node>& nodes() const { return nodes_; }

  /// The byte offset of a line (from 1), the offset of a column in a line, and the line that contains an
  /// offset.
  size_t line_begin(int line) const;
  size_t offset(int line, int column) const;
  int line_of(size_t offset) const;
  /// File and line for messages: "train.py:12".
  std::string place(int line) const;
  /// The number of a line within its own file.
  int line_within(int line) const;
  /// The source text of a node.
  std::string_view text(const Node& node) const;
  /// The white space at the start of the line that contains an offset.
  std::string indent_at(size_t offset) const;
  /// The line ending of the file that contains an offset.
  const std::string& newline(size_t offset) const { return part_at(offset).newline; }

 private:
  void add_part(SourceFile file, bool is_last);

  std::string source_;
  std::vector<Part> parts_;
  std::vector<size_t> line_begins_;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>(size_t{1} << 16);
  std::pmr::deque<Node> nodes_{memory_.get()};
};

/// Calls `visit(node)` for a node and all its descendants, in source order. `visit` returns whether to visit
/// the node's children.
template <typename Visit>
void walk(const Node& node, const Visit& visit) {
  if (!visit(node)) return;
  for (const Field& field : node.fields) {
    for (const Node* child : field.nodes) {
      if (child != nullptr) walk(*child, visit);
    }
  }
}

/// The statement that is or contains a node.
const Node* statement_of(const Node* node);
/// The nearest function around a node (not the node itself); null at the level of a module or class.
const Node* function_of(const Node* node);
/// The nearest class around a node, with only functions and statements between; null if there is none.
const Node* class_of(const Node* node);
/// The module that contains a node.
const Node* module_of(const Node* node);
/// The block that contains a statement (its parent's `body`, `orelse`, …).
Nodes block_of(const Node* statement);
bool is_inside(const Node* node, const Node* ancestor);

}  // namespace telar::weave
