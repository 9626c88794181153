#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "telar/weave/python/syntax.h"

namespace telar::weave {

/// What is assigned to a place: an expression, or one part of it if the assignment unpacks a tuple.
struct Value {
  const Node* node = nullptr;
  int part = -1;           ///< `a, b = node`: 0 for a, 1 for b; -1: the whole
  bool element = false;    ///< an element of `node` at a time (`for place in node`)
  bool augmented = false;  ///< `place += node`
  bool operator==(const Value&) const = default;
};

/// The names of a program and what they refer to. A *place* holds values: a variable of a scope, an attribute
/// of a class's instances, or a dictionary entry with a constant key. Each place has a number. Values are
/// followed through assignments, calls, returns, instances and partial applications; a place can hold
/// several. If a file imports a name from another file of the program, both share that file's place.
class Names {
 public:
  explicit Names(const Tree& tree);

  const Tree& tree() const { return tree_; }

  /// The place that a name, `self.x`, `object.x` or `table["x"]` refers to; -1 if it refers to none.
  int place(const Node* expression) const;
  const std::vector<Value>& values(int place) const;
  /// All names, attributes and subscripts that refer to the place, in source order.
  const std::vector<const Node*>& mentions(int place) const;
  /// The function, class or module of a variable; for an attribute, its class.
  const Node* scope(int place) const { return places_[static_cast<size_t>(place)].scope; }
  const std::string& name(int place) const { return places_[static_cast<size_t>(place)].name; }
  bool is_parameter(int place) const;

  /// The full name of an imported expression, independent of its alias here: "torch.nn.Linear". An unbound
  /// name is its own full name ("print"). Empty for any other expression.
  std::string qualified(const Node* expression) const;
  /// The full name of what a call calls, seen through functools.partial and variables.
  const std::string& callee(const Node* call) const;
  /// The function or class of the program that an expression refers to; null if there is none, or more than
  /// one.
  const Node* definition(const Node* expression) const;
  /// The function that a call runs (for a class its __init__, for an object its __call__).
  const Node* called_function(const Node* call) const;
  /// A method of a class or of its bases in the program; null if there is none.
  const Node* method(const Node* class_def, std::string_view name) const;
  /// Whether a class derives from one of the classes `qualified` (full names), directly or through classes of
  /// the program.
  bool derives(const Node* class_def, const std::vector<std::string_view>& qualified) const;

  /// The nodes that create the values of an expression: calls (of classes, and of functions outside the
  /// program), displays, constants; for `self`, the class. `part`: the index in a tuple; -1: the whole.
  std::vector<const Node*> origins(const Node* expression, int part = -1) const;
  /// All calls of a function of the program.
  const std::vector<const Node*>& calls_of(const Node* function) const;
  const std::vector<const Node*>& calls() const { return calls_; }
  /// All imports: the full name of the module, and the statement.
  const std::vector<std::pair<std::string, const Node*>>& imports() const { return imports_; }
  /// Whether any scope of the program, or of one module, binds or uses the name.
  bool is_used(std::string_view name) const;
  bool is_used_in(const Node* module, std::string_view name) const;
  /// Whether an expression has the same meaning when it is written at `at`, so its variables are visible
  /// there.
  bool means_the_same(const Node* expression, const Node* at) const;
  /// The modules of the program that an import statement loads.
  std::vector<const Node*> imported_modules(const Node* statement) const;
  /// `name` if the program does not use it; otherwise the name with underscores appended.
  std::string fresh(std::string name) const;

  /// The argument that a call passes for a parameter with this name or position, also through partial
  /// applications. Null if it passes none. `position` -1: by keyword only.
  const Node* argument(const Node* call, std::string_view name, int position) const;
  /// The keyword node (name = value), in the call or in a dictionary that is passed as **; null if there is
  /// none.
  const Node* keyword(const Node* call, std::string_view name) const;

 private:
  struct Place {
    const Node* scope = nullptr;
    std::string name;
    std::vector<Value> values;
    std::vector<const Node*> mentions;
    std::string imported;
    std::string module;   ///< for a module of the program: its path without extension
    int times_bound = 0;  ///< number of statements that bind the variable
  };
  /// `from module import name` with a module of the program. It is resolved after all files have been read.
  struct Import {
    const Node* alias = nullptr;
    const Node* scope = nullptr;
    std::string_view name;
    const Node* module = nullptr;
  };

  int place_of(const Node* scope, std::string_view name) const;
  int make_place(const Node* scope, std::string_view name);
  const Node* scope_of(const Node* node) const { return scopes_[node->number]; }
  static std::string attribute_name(std::string_view attribute);
  static std::string entry_name(std::string_view table, std::string_view key);
  void find_scopes();
  int find_place(const Node* expression) const;
  int resolve(const Node* at, std::string_view name) const;
  const Node* owner_class(const Node* expression) const;
  const Node* root_class(const Node* class_def) const;
  void collect_bindings();
  void bind_import(const Node& statement);
  bool bind_own_import(const Node& statement, const Node* alias, const Node* scope);
  void link_imports();
  const Node* own_module(const std::string& path) const;
  bool is_own_module(const std::string& path) const;
  std::string module_path(const Node* expression) const;
  int star_place(const Node* module, std::string_view name) const;
  void bind_target(const Node* target, const Value& value);
  void bind_assignments();
  void bind_statement(const Node& node);
  bool bind_arguments();
  bool add_value(int place, const Value& value);
  void collect_mentions();
  std::vector<int> entries_of(int table) const;
  void call_origins(const Node* call, int part, std::vector<const Node*>& found) const;
  const Node* partial_of(const Node* call) const;
  std::string find_callee(const Node* call) const;

  const Tree& tree_;
  mutable std::pmr::monotonic_buffer_resource memory_{size_t{1} << 16};
  std::vector<const Node*> scopes_;  // by node number: the scope of the node
  std::deque<Place> places_;         // owns the names in by_name_
  using ScopedName = std::pair<const Node*, std::string_view>;
  struct HashName {
    size_t operator()(const ScopedName& one) const {
      return std::hash<std::string_view>()(one.second) ^ (reinterpret_cast<uintptr_t>(one.first) * 31);
    }
  };
  std::pmr::unordered_map<ScopedName, int, HashName> by_name_{&memory_};
  std::vector<int> entries_;  // entries of tables: `table[key]`
  std::unordered_map<const Node*, std::unordered_set<std::string_view>> global_;
  std::vector<const Node*> calls_;
  bool has_call_methods_ = false;  ///< whether a class defines __call__
  std::vector<std::pair<std::string, const Node*>> imports_;
  std::unordered_map<const Node*, std::unordered_set<std::string_view>> names_in_;  // by module
  std::vector<std::pair<const Node*, std::string>> star_imports_;                   // by module
  std::vector<std::pair<const Node*, const Node*>> own_star_imports_;  // importing, imported module
  std::vector<Import> own_imports_;
  std::unordered_map<const Node*, int> alias_places_;
  std::map<std::string, const Node*> modules_;  // of the program, by file path
  std::unordered_map<const Node*, std::vector<const Node*>> callers_;

  /// The key of an answer: a place (its number, made odd), an expression or a function (its address), and the
  /// part of a tuple.
  using Question = std::pair<uintptr_t, int>;
  static Question of_place(int place, int part) { return {2 * static_cast<uintptr_t>(place) + 1, part}; }
  static Question of_node(const Node* node, int part) { return {reinterpret_cast<uintptr_t>(node), part}; }
  struct Hash {
    size_t operator()(const Question& one) const {
      return one.first * 31 + static_cast<size_t>(static_cast<unsigned>(one.second));
    }
  };
  using Answer = std::span<const Node* const>;  // in memory_
  using Answers = std::pmr::unordered_map<Question, Answer, Hash>;
  template <typename Compute>
  Answer answered_once(const Question& question, const Compute& compute) const;
  Answer kept(const std::vector<const Node*>& nodes) const;
  Answer entry_origins(const Node* subscript) const;
  void add_entries(const Node& display, const Node& key, std::vector<const Node*>& found) const;
  Value element_of(const Value& value) const;
  Answer place_origins(int place, int part) const;
  Answer return_origins(const Node* function, int part) const;
  mutable Answers origin_memo_{&memory_};
  /// Answers found while computing another one. If a cycle was cut, they are valid only for that one.
  mutable Answers on_the_way_{&memory_};
  mutable std::vector<Question> in_progress_;
  mutable bool cut_ = false;
  mutable int depth_ = 0;
  mutable std::vector<int> places_by_node_;
  bool is_bound_ = false;  ///< all values have reached their places
  mutable std::unordered_map<const Node*, std::string> callees_;
};

/// The public name of a class or function: `torch.utils.data.dataloader.DataLoader` becomes
/// `torch.utils.data.DataLoader`, and Keras under any name becomes `keras.…`.
std::string canonical(std::string qualified);

/// The source text of an expression.
std::string text_of(const Names& names, const Node* node);

}  // namespace telar::weave
