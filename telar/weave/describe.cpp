#include "telar/weave/describe.h"

#include <nlohmann/json.hpp>

namespace telar::weave {

namespace {

using Json = nlohmann::ordered_json;

/// The value of a constant; the source text of any other expression.
Json value_of(const Names& names, const Node* node, int depth = 4) {
  if (node->is(Kind::constant)) {
    if (node->is_string()) return node->text;
    if (node->literal == Literal::null) return nullptr;
    const Json parsed = Json::parse(
        node->literal == Literal::boolean ? (node->text == "True" ? "true" : "false") : node->text, nullptr,
        false);
    return parsed.is_discarded() ? Json(node->text) : parsed;
  }
  if (node->is(Kind::name) && depth > 0) {
    const auto& values = names.values(names.place(node));
    if (values.size() == 1 && values[0].part < 0 && !values[0].element &&
        values[0].node->is(Kind::constant)) {
      return value_of(names, values[0].node, depth - 1);
    }
  }
  return text_of(names, node);
}

/// The line of a node in its file and, if the program has several files, the file.
void put_place(Json& json, const Names& names, const Node* node) {
  const Tree& tree = names.tree();
  if (tree.parts().size() > 1) json["file"] = tree.part_at(node->begin).name;
  json["line"] = tree.line_within(node->line);
}

Json call_of(const Names& names, const Node* call) {
  Json json;
  const std::string& callee = names.callee(call);
  json["kind"] = callee.empty() ? text_of(names, call->child("func")) : callee;
  put_place(json, names, call);
  Json arguments = Json::array();
  for (const Node* given : call->list("args")) arguments.push_back(value_of(names, given));
  Json options = Json::object();
  for (const Node* given : call->list("keywords")) {
    options[given->text.empty() ? "**" : given->text] = value_of(names, given->child("value"));
  }
  json["arguments"] = arguments;
  json["options"] = options;
  return json;
}

/// A call with its arguments; the value of a constant; the source text of any other expression.
Json part_of(const Names& names, const Node* node) {
  if (node->is(Kind::call)) return call_of(names, node);
  Json json;
  json["kind"] = value_of(names, node);
  put_place(json, names, node);
  return json;
}

/// The layers that a class creates in its methods, or that a Sequential contains.
Json layers_of(const Names& names, const Node* within) {
  Json layers = Json::array();
  walk(*within, [&](const Node& node) {
    if (!node.is(Kind::call) || !makes_layer(names.callee(&node))) return true;
    Json json = call_of(names, &node);
    if (node.parent->is(Kind::assign)) json["name"] = text_of(names, node.parent->list("targets")[0]);
    layers.push_back(json);
    return true;
  });
  return layers;
}

Json model_of(const Names& names, const Program::Model& model) {
  Json json;
  json["name"] = model.name;
  json["made"] = Json::array();
  for (const Node* origin : model.made) {
    if (!origin->is(Kind::call)) continue;
    Json made = call_of(names, origin);
    const Node* own = names.definition(origin->child("func"));
    made["layers"] = layers_of(names, own != nullptr ? own : origin);
    // Keras: layers that are added one by one, or the functional interface in the same function.
    if (made["layers"].empty() && names.callee(origin).starts_with("keras.")) {
      const Node* around = function_of(origin);
      made["layers"] = layers_of(names, around != nullptr ? around : module_of(origin));
    }
    json["made"].push_back(made);
  }
  return json;
}

}  // namespace

std::string describe(const Names& names, const Program& program) {
  Json json;
  json["file"] = names.tree().main().name;
  json["framework"] = program.framework;
  for (const char* part :
       {"models", "losses", "optimizers", "schedules", "data", "loops", "callbacks", "outputs"})
    json[part] = Json::array();
  for (const Program::Model& model : program.models) json["models"].push_back(model_of(names, model));
  for (const Program::Optimizer& optimizer : program.optimizers) {
    Json one = part_of(names, optimizer.made);
    one["models"] = optimizer.models;
    json["optimizers"].push_back(one);
  }
  for (const Node* schedule : program.schedules) json["schedules"].push_back(call_of(names, schedule));
  for (const Program::Data& data : program.data) {
    Json one = part_of(names, data.made);
    one["trains"] = data.trains;
    json["data"].push_back(one);
  }
  for (const Program::Loop& loop : program.loops) {
    Json one;
    put_place(one, names, loop.at);
    one["over"] = loop.over == nullptr ? Json() : Json(text_of(names, loop.over));
    one["does"] = loop.trains ? "training" : "evaluation";
    json["loops"].push_back(one);
  }
  for (const Node* loss : program.losses) json["losses"].push_back(part_of(names, loss));
  for (const Node* callback : program.callbacks) json["callbacks"].push_back(call_of(names, callback));
  for (const Node* output : program.outputs) {
    const std::string& callee = names.callee(output);
    Json one;
    one["kind"] = callee.empty() ? text_of(names, output->child("func")) : callee;
    put_place(one, names, output);
    json["outputs"].push_back(one);
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace telar::weave
