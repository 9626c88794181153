#include "telar/weave/describe.h"

#include <nlohmann/json.hpp>

namespace telar::weave {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Names& names, const Node* node) { return std::string(names.tree().text(*node)); }

/// A constant by its value; anything else as it is written.
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

Json call_of(const Names& names, const Node* call) {
  Json json;
  const std::string callee = names.callee(call);
  json["kind"] = callee.empty() ? text_of(names, call->child("func")) : callee;
  json["line"] = call->line;
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

/// The layers that a class makes in its methods, or that stand inside a Sequential.
Json layers_of(const Names& names, const Node* within) {
  Json layers = Json::array();
  walk(*within, [&](const Node& node) {
    if (!node.is(Kind::call)) return true;
    const std::string callee = names.callee(&node);
    const bool layer = callee.starts_with("torch.nn.") && !callee.starts_with("torch.nn.functional.") &&
                       !callee.starts_with("torch.nn.init.") && callee != "torch.nn.Sequential" &&
                       callee != "torch.nn.ModuleList";
    if (!layer) return true;
    Json json = call_of(names, &node);
    if (node.parent->is(Kind::assign)) json["name"] = text_of(names, node.parent->list("targets")[0]);
    layers.push_back(json);
    return true;
  });
  return layers;
}

Json model_of(const Names& names, const TorchModel& model) {
  Json json;
  json["name"] = model.text;
  json["made"] = Json::array();
  for (const Node* origin : model.origins) {
    if (!origin->is(Kind::call)) continue;
    Json made = call_of(names, origin);
    const Node* own = names.definition(origin->child("func"));
    made["layers"] = layers_of(names, own != nullptr ? own : origin);
    json["made"].push_back(made);
  }
  return json;
}

}  // namespace

std::string describe(const Names& names, const TorchProgram& program) {
  Json json;
  json["file"] = names.tree().file();
  json["framework"] = "pytorch";
  for (const char* part : {"models", "losses", "optimizers", "schedules", "data", "loops", "outputs"})
    json[part] = Json::array();
  for (const TorchModel& model : program.models) json["models"].push_back(model_of(names, model));
  for (const TorchOptimizer& optimizer : program.optimizers) {
    Json one = call_of(names, optimizer.call);
    one["models"] = Json::array();
    for (const size_t model : optimizer.models) one["models"].push_back(program.models[model].text);
    json["optimizers"].push_back(one);
  }
  for (const Node* schedule : program.schedulers) json["schedules"].push_back(call_of(names, schedule));
  for (const TorchLoader& loader : program.loaders) {
    Json one = call_of(names, loader.call);
    one["trains"] = loader.trains;
    json["data"].push_back(one);
  }
  for (const TorchLoop& loop : program.loops) {
    json["loops"].push_back({{"line", loop.loop->line},
                             {"over", text_of(names, loop.loader)},
                             {"does", loop.trains ? "training" : "evaluation"}});
  }
  for (const Node* call : names.calls()) {
    const std::string callee = names.callee(call);
    const bool loss = (callee.starts_with("torch.nn.") && callee.ends_with("Loss")) ||
                      callee == "torch.nn.functional.cross_entropy" ||
                      callee == "torch.nn.functional.nll_loss" || callee == "torch.nn.functional.mse_loss" ||
                      callee.starts_with("torch.nn.functional.binary_cross_entropy");
    if (loss) json["losses"].push_back(call_of(names, call));
    if (callee == "torch.save" || callee == "print" || callee.ends_with("SummaryWriter")) {
      json["outputs"].push_back({{"kind", callee}, {"line", call->line}});
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace telar::weave
