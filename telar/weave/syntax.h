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

/// What a node of Python's syntax tree is; the names are those of Python's `ast`. `other` stands for kinds that no
/// analysis asks about.
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
  // Operators that are asked about.
  add,
  sub,
  mult,
  div,
  floor_div,
  mod,
  usub
};

/// The kind that Python calls `name`.
Kind kind_of(std::string_view name);

/// What a constant is.
enum class Literal : uint8_t { none, string, bytes, number, boolean, null, ellipsis };

struct Node;

/// The first eight letters of a field's name as a number. Those of Python's fields differ in them, and numbers known when this
/// is compiled are compared a million times.
constexpr uint64_t key_of(std::string_view name) {
  uint64_t key = 0;
  for (size_t i = 0; i < 8; ++i)
    key = key << 8 | (i < name.size() ? static_cast<unsigned char>(name[i]) : 0U);
  return key;
}

/// The children that a node has under one name: `body`, `args`, `value`. An absent child in a list (the default that
/// a keyword-only parameter lacks, the key of `**other` in a dict) is null.
using Nodes = std::span<Node* const>;
struct Field {
  uint64_t key = 0;  ///< of its name
  Nodes nodes;
};

/// A node: kind, names, children and the bytes of the source that it covers. All that it refers to lies in its tree's memory.
struct Node {
  Kind kind = Kind::other;
  Literal literal = Literal::none;
  bool store = false;           ///< of a name, attribute or subscript: it is assigned or deleted here
  bool inside_fstring = false;  ///< its span is not to be trusted (before Python 3.12)
  uint32_t number = 0;          ///< among the nodes of its tree
  int line = 0;                 ///< 1 is the first; 0 for parts without a place
  int level = 0;                ///< of `from ..x import y`: how many dots
  size_t begin = 0;
  size_t end = 0;
  /// Name, attribute, function, class, parameter, keyword or module; a constant's value (a string's own characters,
  /// otherwise as written).
  std::string_view text;
  std::string_view as_name;                        ///< of an import
  std::span<const std::string_view> global_names;  ///< of `global` and `nonlocal`
  Node* parent = nullptr;
  std::string_view role;  ///< the name of the parent's field that holds it
  std::span<const Field> fields;

  /// The child called `name`; null when there is none.
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

/// A file of Python as it is handed to a tree: what it is called in messages, its path within its project (of a script alone
/// the same), its text as UTF-8.
struct SourceFile {
  std::string name;
  std::string path;
  std::string text;
};

/// One file within the text of a tree.
struct Part {
  std::string name;
  std::string path;
  std::string newline;  ///< "\n", "\r\n" or "\r": how its first line ends
  size_t begin = 0;
  size_t end = 0;  ///< behind its last character; what follows belongs to no file
  int first_line = 1;
  bool ends_open = false;  ///< its last line had no end and was given one
  Node* root = nullptr;    ///< its module
};

/// The files of a program of Python, the script that is run last: one text over all of them and the trees of their modules.
/// Lines and offsets count through that text, so that every place has its own; `place` says which file's they are. A file
/// stands behind those that it imports, so that of two statements of modules the earlier one runs first. Moving a tree keeps
/// the nodes where they are.
class Tree {
 public:
  explicit Tree(std::vector<SourceFile> files);
  Tree(Tree&&) = default;
  Tree& operator=(Tree&&) = delete;
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() = default;

  Node* add(Kind kind);
  /// Room for `size` objects that live as long as the tree.
  template <typename Object>
  std::span<Object> make_room(size_t size) {
    static_assert(std::is_trivially_destructible_v<Object>);
    Object* const first = std::pmr::polymorphic_allocator<Object>(memory_.get()).allocate(size);
    std::uninitialized_value_construct_n(first, size);
    return {first, size};
  }
  /// The statements of a module, when all have been read.
  void set_body(Node& module, const std::vector<Node*>& statements);
  /// A copy of a text that lives as long as the tree.
  std::string_view keep(std::string_view text);

  const std::vector<Part>& parts() const { return parts_; }
  std::vector<Part>& parts() { return parts_; }
  /// The file that an offset lies in, and the one that is run.
  const Part& part_at(size_t offset) const;
  const Part& main() const { return parts_.back(); }
  const std::string& source() const { return source_; }
  /// The module that is run.
  Node* root() const { return parts_.back().root; }
  /// Every node, in the order of their numbers.
  const std::pmr::deque<Node>& nodes() const { return nodes_; }

  /// Byte offset of a line (1 is the first) and of the line that an offset lies in.
  size_t line_begin(int line) const;
  size_t offset(int line, int column) const;
  int line_of(size_t offset) const;
  /// "train.py:12" of a line.
  std::string place(int line) const;
  /// The line within its own file.
  int line_within(int line) const;
  /// The text that a node covers.
  std::string_view text(const Node& node) const;
  /// White space before the first character of the line that an offset lies in.
  std::string indent_at(size_t offset) const;
  /// How lines end in the file that an offset lies in.
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

/// Calls `visit(node)` for a node and everything below it, in the order of the source. `visit` returns whether to go
/// into the node's children.
template <typename Visit>
void walk(const Node& node, const Visit& visit) {
  if (!visit(node)) return;
  for (const Field& field : node.fields) {
    for (const Node* child : field.nodes) {
      if (child != nullptr) walk(*child, visit);
    }
  }
}

/// The statement that a node is or stands in.
const Node* statement_of(const Node* node);
/// The nearest function around a node (not the node itself), or null at the level of the module or of a class.
const Node* function_of(const Node* node);
/// The nearest class around a node, with nothing but functions and statements between.
const Node* class_of(const Node* node);
/// The module that a node stands in.
const Node* module_of(const Node* node);
/// The statements among which a statement stands (its parent's `body`, `orelse`, …).
Nodes block_of(const Node* statement);
bool is_inside(const Node* node, const Node* ancestor);

}  // namespace telar::weave
