#include "telar/io/server_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "telar/graph/ops/update.h"
#include "telar/io/graph_json.h"
#include "telar/io/json_fields.h"

namespace telar {

namespace {

/// The form of the text. A change of its meaning gets another number.
constexpr int64_t kForm = 1;
constexpr int64_t kLargestAxis = int64_t{1} << 47;

nlohmann::json piece_json(const Piece& piece) {
  return {{"variable", piece.variable},
          {"shape", piece.shape.dims()},
          {"axis", piece.axis},
          {"begin", piece.begin},
          {"end", piece.end}};
}

Piece read_piece(const JsonFields& fields) {
  Piece piece{fields.text("variable"), Shape(fields.integers("shape", 1, kLargestAxis)), 0, 0};
  if (piece.shape.rank() == 0) throw fields.wrong("shape", "a list of at least one extent");
  TensorType{DType::f32, piece.shape}.bytes();  // the check of the whole variable
  piece.axis = static_cast<size_t>(fields.integer("axis", 0, static_cast<int64_t>(piece.shape.rank()) - 1));
  piece.begin = fields.integer("begin", 0, piece.shape[piece.axis] - 1);
  piece.end = fields.integer("end", piece.begin + 1, piece.shape[piece.axis]);
  return piece;
}

std::map<std::string, Piece> by_name(const std::vector<Piece>& pieces) {
  std::map<std::string, Piece> named;
  for (const Piece& piece : pieces) named.emplace(piece.name(), piece);
  return named;
}

std::map<std::string, const Node*> updates_by_piece(const Graph& update) {
  std::map<std::string, const Node*> nodes;
  for (const Node& node : update.nodes()) nodes[update.value(node.inputs[0]).name] = &node;
  return nodes;
}

/// Throws Error (user) for what does not belong to a server's update. Types and numbers of inputs have been
/// checked by the operations.
class UpdateCheck {
 public:
  UpdateCheck(const ServerProgram& program, const std::string& source)
      : update_(program.update), pieces_(by_name(program.pieces)), source_(source) {
    if (pieces_.size() != program.pieces.size()) throw user_error("{}: a piece is listed twice", source);
    std::set<std::string> updated;
    std::set<ValueId> used;
    for (const Node& node : update_.nodes()) {
      if (node.op->effect() != Effect::updates)
        throw user_error("{}: {} is not an update of a piece", source, node.op->name());
      const std::string& piece = require_piece(node);
      if (!updated.insert(piece).second) throw user_error("{}: '{}' is updated twice", source, piece);
      require_inputs(node, piece);
      used.insert(node.inputs.begin(), node.inputs.end());
    }
    // Each would cost the server an arena.
    for (size_t v = 0; v < update_.values().size(); ++v) {
      const Value& value = update_.values()[v];
      if (value.is_buffer() && !used.contains(static_cast<ValueId>(v)))
        throw user_error("{}: no update uses '{}'", source, value.text());
    }
  }

 private:
  const std::string& require_piece(const Node& node) const {
    const Value* parameter = node.inputs[0] == kNoValue ? nullptr : &update_.value(node.inputs[0]);
    const auto piece = parameter == nullptr || parameter->kind != ValueKind::parameter
                           ? pieces_.end()
                           : pieces_.find(parameter->name);
    if (piece == pieces_.end()) throw user_error("{}: {} does not update a piece", source_, node.op->name());
    const Shape shape = piece->second.piece_shape();
    if (parameter->type != TensorType{DType::f32, shape})
      throw user_error("{}: '{}' is a piece of the shape {}, but its update is for {}", source_,
                       parameter->name, shape.str(), parameter->type.str());
    return piece->first;
  }

  void require_inputs(const Node& node, const std::string& piece) const {
    size_t next = 1;
    require_value(node, next++, {piece, {}, ValueKind::gradient});
    for (const SlotName& slot : slots_of_update(node))
      require_value(node, next++, {.name = piece, .kind = ValueKind::optimizer_state, .slot = slot});
    for (const char* scalar : {"learning_rate", "samples", "step"}) {
      if (node.inputs[next] != kNoValue) require_value(node, next, {scalar, {}, ValueKind::input});
      ++next;
    }
    if (node.inputs[next] != kNoValue)
      throw user_error("{}: the update of '{}' clips its gradient; a server knows no norm", source_, piece);
  }

  /// The type of `wanted` does not count: the operation has checked it.
  void require_value(const Node& node, size_t input, const Value& wanted) const {
    const ValueId id = node.inputs[input];
    const Value given = id == kNoValue ? Value{} : update_.value(id);
    if (given.kind != wanted.kind || given.name != wanted.name || given.slot != wanted.slot)
      throw user_error("{}: input {} of {} must be '{}'", source_, input, node.op->name(), wanted.text());
  }

  const Graph& update_;
  const std::map<std::string, Piece> pieces_;
  const std::string& source_;
};

std::string rule_text(const Node* node) {
  if (node == nullptr) return "none";
  return fmt::format("{} {}", node->op->name(), node->attributes.str());
}

}  // namespace

std::string to_json(const ServerProgram& program) {
  nlohmann::json pieces = nlohmann::json::array();
  for (const Piece& piece : program.pieces) pieces.push_back(piece_json(piece));
  std::string text =
      nlohmann::json{{"form", kForm}, {"pieces", pieces}, {"update", json_of(program.update)}}.dump();
  if (text.size() > kMostServerProgramBytes)
    throw user_error(
        "the program of a parameter server has {} bytes for {} pieces, and at most {} can be sent; use more servers, or the placement greedy, which does not split variables",
        text.size(), program.pieces.size(), kMostServerProgramBytes);
  return text;
}

ServerProgram server_program_from_json(const std::string& text, const std::string& source) {
  const JsonFields fields(text, source);
  if (!fields.has("form") || fields.value("form") != kForm)
    throw user_error("{} has another form than this release of telar knows; use the same release everywhere",
                     source);
  ServerProgram program;
  size_t number = 0;
  for (const nlohmann::json& piece : fields.list("pieces", "a list of pieces"))
    program.pieces.push_back(
        read_piece(JsonFields::of(piece, fmt::format("{}, piece {}", source, number++))));
  program.update = graph_of_json(fields.value("update"), add_found(find_update_operation), source);
  const UpdateCheck check(program, source);
  return program;
}

std::string difference(const ServerProgram& held, const ServerProgram& other) {
  const auto held_pieces = by_name(held.pieces);
  const auto other_pieces = by_name(other.pieces);
  for (const auto& [name, piece] : held_pieces)
    if (!other_pieces.contains(name))
      return fmt::format("the server holds '{}', which the run does not have", name);
  const auto held_updates = updates_by_piece(held.update);
  const auto other_updates = updates_by_piece(other.update);
  const auto rule = [](const std::map<std::string, const Node*>& nodes, const std::string& name) {
    const auto node = nodes.find(name);
    return rule_text(node == nodes.end() ? nullptr : node->second);
  };
  for (const auto& [name, piece] : other_pieces) {
    const auto before = held_pieces.find(name);
    if (before == held_pieces.end())
      return fmt::format("the run has '{}', which the server does not hold", name);
    if (before->second.shape != piece.shape)
      return fmt::format("'{}' has the shape {} on the server, but {} in the run", name,
                         before->second.shape.str(), piece.shape.str());
    if (rule(held_updates, name) != rule(other_updates, name))
      return fmt::format("the update of '{}' is {} on the server, but {} in the run", name,
                         rule(held_updates, name), rule(other_updates, name));
  }
  // Only their order is left: it decides where the pieces are in the server's memory.
  for (size_t p = 0; p < held.pieces.size(); ++p)
    if (held.pieces[p].name() != other.pieces[p].name())
      return fmt::format("piece {} is '{}' on the server, but '{}' in the run", p, held.pieces[p].name(),
                         other.pieces[p].name());
  return "";
}

}  // namespace telar
