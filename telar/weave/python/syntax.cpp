#include "telar/weave/python/syntax.h"

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
      {"Load", Kind::load},
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

}  // namespace

Kind kind_of(std::string_view name) {
  const auto found = kinds().find(name);
  return found == kinds().end() ? Kind::other : found->second;
}

Tree::Tree(std::vector<SourceFile> files) {
  for (size_t i = 0; i < files.size(); ++i) add_part(std::move(files[i]), i + 1 == files.size());
}

/// An empty line that belongs to no file follows every file but the last. It separates insertions at the end
/// of one file from insertions at the beginning of the next.
void Tree::add_part(SourceFile file, bool is_last) {
  Part part;
  part.name = std::move(file.name);
  part.path = std::move(file.path);
  part.begin = source_.size();
  part.first_line = static_cast<int>(line_begins_.size()) + 1;
  line_begins_.push_back(part.begin);
  source_ += file.text;
  for (size_t at = part.begin; at < source_.size(); ++at) {
    const bool carriage = source_[at] == '\r';
    if (!carriage && source_[at] != '\n') continue;
    const bool both = carriage && at + 1 < source_.size() && source_[at + 1] == '\n';
    if (part.newline.empty()) part.newline = both ? "\r\n" : carriage ? "\r" : "\n";
    if (both) ++at;
    line_begins_.push_back(at + 1);
  }
  if (part.newline.empty()) part.newline = "\n";
  if (!is_last) {
    part.ends_open = line_begins_.back() != source_.size() || file.text.empty();
    if (part.ends_open) {
      source_ += part.newline;
      line_begins_.push_back(source_.size());
    }
    source_ += '\n';
  }
  part.end = is_last ? source_.size() : source_.size() - 1;
  parts_.push_back(std::move(part));
}

const Part& Tree::part_at(size_t offset) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), offset,
                                      [](size_t at, const Part& part) { return at < part.begin; });
  return after == parts_.begin() ? parts_.front() : *std::prev(after);
}

std::string Tree::place(int line) const {
  return part_at(line_begin(line)).name + ":" + std::to_string(line_within(line));
}

int Tree::line_within(int line) const { return line - part_at(line_begin(line)).first_line + 1; }

Node* Tree::add(Kind kind) {
  const auto number = static_cast<uint32_t>(nodes_.size());
  Node& node = nodes_.emplace_back();
  node.number = number;
  node.kind = kind;
  return &node;
}

void Tree::set_body(Node& module, const std::vector<Node*>& statements) {
  if (statements.empty()) return;
  const std::span<Node*> nodes = make_room<Node*>(statements.size());
  std::copy(statements.begin(), statements.end(), nodes.begin());
  const std::span<Field> body = make_room<Field>(1);
  body[0] = {key_of("body"), nodes};
  module.fields = body;
}

std::string_view Tree::keep(std::string_view text) {
  const std::span<char> copy = make_room<char>(text.size());
  std::copy(text.begin(), text.end(), copy.begin());
  return {copy.data(), copy.size()};
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

const Node* module_of(const Node* node) {
  while (node->parent != nullptr) node = node->parent;
  return node;
}

Nodes block_of(const Node* statement) {
  return statement->parent == nullptr ? Nodes() : statement->parent->list(statement->role);
}

bool is_inside(const Node* node, const Node* ancestor) {
  while (node != nullptr && node != ancestor) node = node->parent;
  return node != nullptr;
}

}  // namespace telar::weave
