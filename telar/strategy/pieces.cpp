#include "telar/strategy/pieces.h"

#include <algorithm>
#include <map>
#include <utility>

#include "telar/graph/autodiff.h"
#include "telar/graph/forward_part.h"

namespace telar {

Graph gradient_of(const Graph& forward, const TrainingStep& step) {
  std::vector<ValueId> wanted;
  for (const ParameterInfo& parameter : step.parameters) {
    if (parameter.trainable && step.gradient.has(ValueKind::gradient, parameter.name))
      wanted.push_back(forward.find(ValueKind::parameter, parameter.name));
  }
  return differentiate(forward, loss_of(forward), wanted);
}

Graph update_of_pieces(const Graph& update, const Pieces& pieces) {
  GraphBuilder builder;
  std::vector<ValueId> now(update.values().size(), kNoValue);
  for (size_t i = 0; i < update.values().size(); ++i) {
    Value value = update.values()[i];
    if (value.kind == ValueKind::result) continue;
    const auto piece = value.is_of_parameter() ? pieces.find(value.name) : pieces.end();
    if (piece != pieces.end()) value.type.shape = piece->second.piece_shape();
    now[i] = builder.declare(value);
  }
  for (const Node& node : update.nodes()) {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? id : now[static_cast<size_t>(id)]);
    builder.set_scope(node.scope);
    const auto outputs = builder.add(*node.op, std::move(inputs), node.attributes);
    for (size_t i = 0; i < outputs.size(); ++i) now[static_cast<size_t>(node.outputs[i])] = outputs[i];
  }
  builder.set_scope("");
  return builder.build();
}

std::vector<Holding> holdings_of(const Program& program, const Divisions& divisions,
                                 const std::string& divided, const std::string& copies) {
  std::vector<std::string> order;
  for (const Bucket& bucket : program.buckets)
    order.insert(order.end(), bucket.parameters.begin(), bucket.parameters.end());
  std::map<std::string, const ParameterInfo*> infos;
  for (const ParameterInfo& parameter : program.parameters) {
    infos[parameter.name] = &parameter;
    if (std::ranges::find(order, parameter.name) == order.end()) order.push_back(parameter.name);
  }
  std::vector<Holding> holdings;
  for (const std::string& name : order)
    if (!divisions.contains(name)) holdings.push_back({name, infos.at(name)->shape});
  for (const std::string& name : order) {
    const auto division = divisions.find(name);
    if (division == divisions.end()) continue;
    holdings.push_back(
        {name, infos.at(name)->shape, divided, division->second.axis, division->second.unit, copies});
  }
  return holdings;
}

void share_memory(Program& program, Update update) {
  for (WorkerProgram& kind : program.kinds) {
    kind.home = StateHome::of_process;
    kind.holdings = holdings_of(program);
    for (Holding& holding : kind.holdings) holding.update = update;
    kind.update = program.update;
    kind.evaluation = program.evaluation;
    kind.prediction = program.prediction;
  }
}

}  // namespace telar
