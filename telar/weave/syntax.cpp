#include "telar/weave/syntax.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

namespace telar::weave {

namespace {

const std::unordered_map<std::string_view, Kind>& kinds() {
  static const std::unordered_map<std::string_view, Kind> table = {
      {"Module", Kind::module},
      {"FunctionDef", Kind::function_def},
      {"AsyncFunctionDef", Kind::async_function_def},
      {"ClassDef", Kind::class_def},
      {"Return", Kind::return_},
      {"Assign", Kind::assign},
      {"AugAssign", Kind::aug_assign},
      {"AnnAssign", Kind::ann_assign},
      {"For", Kind::for_},
      {"AsyncFor", Kind::async_for},
      {"While", Kind::while_},
      {"If", Kind::if_},
      {"With", Kind::with},
      {"AsyncWith", Kind::async_with},
      {"Raise", Kind::raise},
      {"Try", Kind::try_},
      {"TryStar", Kind::try_},
      {"Import", Kind::import},
      {"ImportFrom", Kind::import_from},
      {"Global", Kind::global},
      {"Nonlocal", Kind::nonlocal},
      {"Expr", Kind::expr},
      {"Pass", Kind::pass},
      {"Break", Kind::break_},
      {"Continue", Kind::continue_},
      {"Delete", Kind::delete_},
      {"BoolOp", Kind::bool_op},
      {"NamedExpr", Kind::named_expr},
      {"BinOp", Kind::bin_op},
      {"UnaryOp", Kind::unary_op},
      {"Lambda", Kind::lambda},
      {"IfExp", Kind::if_exp},
      {"Dict", Kind::dict},
      {"ListComp", Kind::list_comp},
      {"SetComp", Kind::set_comp},
      {"DictComp", Kind::dict_comp},
      {"GeneratorExp", Kind::generator},
      {"Yield", Kind::yield},
      {"YieldFrom", Kind::yield},
      {"Compare", Kind::compare},
      {"Call", Kind::call},
      {"JoinedStr", Kind::joined_str},
      {"Constant", Kind::constant},
      {"Attribute", Kind::attribute},
      {"Subscript", Kind::subscript},
      {"Starred", Kind::starred},
      {"Name", Kind::name},
      {"List", Kind::list},
      {"Tuple", Kind::tuple},
      {"arguments", Kind::arguments},
      {"arg", Kind::arg},
      {"keyword", Kind::keyword},
      {"alias", Kind::alias},
      {"withitem", Kind::with_item},
      {"ExceptHandler", Kind::except_handler},
      {"comprehension", Kind::comprehension},
      {"Add", Kind::add},
      {"Sub", Kind::sub},
      {"Mult", Kind::mult},
      {"Div", Kind::div},
      {"FloorDiv", Kind::floor_div},
      {"Mod", Kind::mod},
      {"USub", Kind::usub},
  };
  return table;
}

const std::vector<Node*> kNone;

}  // namespace

Kind kind_of(std::string_view name) {
  const auto found = kinds().find(name);
  return found == kinds().end() ? Kind::other : found->second;
}

Node* Node::child(std::string_view name) const {
  const std::vector<Node*>& nodes = list(name);
  return nodes.empty() ? nullptr : nodes.front();
}

const std::vector<Node*>& Node::list(std::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return field.nodes;
  }
  return kNone;
}

Tree::Tree(std::string file, std::string source) : file_(std::move(file)), source_(std::move(source)) {
  line_begins_.push_back(0);
  for (size_t at = 0; at < source_.size(); ++at) {
    const bool carriage = source_[at] == '\r';
    if (!carriage && source_[at] != '\n') continue;
    const bool both = carriage && at + 1 < source_.size() && source_[at + 1] == '\n';
    if (newline_.empty()) newline_ = both ? "\r\n" : carriage ? "\r" : "\n";
    if (both) ++at;
    line_begins_.push_back(at + 1);
  }
  if (newline_.empty()) newline_ = "\n";
}

Node* Tree::add(Kind kind) {
  Node& node = nodes_.emplace_back();
  node.kind = kind;
  return &node;
}

std::string_view Tree::intern(std::string_view name) {
  for (const std::string& known : names_) {
    if (known == name) return known;
  }
  return names_.emplace_back(name);
}

size_t Tree::line_begin(int line) const {
  const auto index = static_cast<size_t>(std::max(line, 1) - 1);
  return index < line_begins_.size() ? line_begins_[index] : source_.size();
}

size_t Tree::offset(int line, int column) const {
  return std::min(line_begin(line) + static_cast<size_t>(std::max(column, 0)), source_.size());
}

int Tree::line_of(size_t offset) const {
  const auto after = std::upper_bound(line_begins_.begin(), line_begins_.end(), offset);
  return static_cast<int>(after - line_begins_.begin());
}

std::string_view Tree::text(const Node& node) const {
  return std::string_view(source_).substr(node.begin, node.end - node.begin);
}

std::string Tree::indent_at(size_t offset) const {
  const size_t begin = line_begin(line_of(offset));
  size_t end = begin;
  while (end < source_.size() && (source_[end] == ' ' || source_[end] == '\t' || source_[end] == '\f')) ++end;
  return source_.substr(begin, end - begin);
}

const Node* statement_of(const Node* node) {
  while (node != nullptr && !node->is_statement()) node = node->parent;
  return node;
}

const Node* function_of(const Node* node) {
  for (const Node* around = node->parent; around != nullptr; around = around->parent) {
    if (around->is_function()) return around;
    if (around->is(Kind::class_def)) return nullptr;
  }
  return nullptr;
}

const Node* class_of(const Node* node) {
  for (const Node* around = node->parent; around != nullptr; around = around->parent) {
    if (around->is(Kind::class_def)) return around;
  }
  return nullptr;
}

const std::vector<Node*>& block_of(const Node* statement) {
  return statement->parent == nullptr ? kNone : statement->parent->list(statement->role);
}

bool is_inside(const Node* node, const Node* ancestor) {
  while (node != nullptr && node != ancestor) node = node->parent;
  return node != nullptr;
}

}  // namespace telar::weave
