#include "telar/strategy/stage_cuts.h"

#include <algorithm>
#include <map>

#include "telar/core/error.h"
#include "telar/graph/training_step.h"

namespace telar {

std::vector<bool> batch_is_outermost(const Graph& graph) {
  const int64_t batch = graph.batch();
  const Graph larger = graph.with_batch(batch + 1);
  std::vector<bool> outermost;
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const TensorType& type = graph.values()[v].type;
    const TensorType& other = larger.values()[v].type;
    outermost.push_back(type != other && type.shape.rank() > 0 && type.shape[0] == batch &&
                        other.shape[0] == batch + 1);
  }
  return outermost;
}

StageCuts::StageCuts(const TrainingStep& step)
    : graph_(step.gradient),
      forward_(step.forward_nodes),
      batched_(batch_is_outermost(graph_)),
      depends_(graph_.values().size()),
      first_read_(graph_.values().size(), -1) {
  if (forward_ == 0 || forward_ > graph_.nodes().size())
    throw run_error("a training step whose forward part is not known cannot be cut into stages");
  const auto at = [](std::vector<bool>& flags, ValueId id) { return flags[static_cast<size_t>(id)]; };
  for (size_t v = 0; v < graph_.values().size(); ++v) {
    const Value& value = graph_.values()[v];
    depends_[v] = value.kind == ValueKind::input && value.batched;
  }
  for (const Node& node : graph_.nodes()) {
    bool depends = node.op->has_effect();
    for (const ValueId id : node.inputs) depends = depends || (id != kNoValue && at(depends_, id));
    free_.push_back(!depends);
    for (const ValueId id : node.outputs) depends_[static_cast<size_t>(id)] = depends;
  }
  for (size_t n = forward_; n-- > 0;) {
    int reader = static_cast<int>(n);
    const Node& node = graph_.nodes()[n];
    if (free_[n]) {
      reader = static_cast<int>(graph_.nodes().size());
      for (const ValueId id : node.outputs) {
        const int read = first_read_[static_cast<size_t>(id)];
        if (read >= 0) reader = std::min(reader, read);
      }
    }
    for (const ValueId id : node.inputs) {
      if (id != kNoValue) first_read_[static_cast<size_t>(id)] = reader;
    }
  }
  for (size_t n = forward_; n < graph_.nodes().size(); ++n) {
    int home = -1;
    for (const ValueId id : graph_.nodes()[n].inputs) {
      if (id == kNoValue) continue;
      const Value& value = graph_.value(id);
      if (value.kind == ValueKind::result && value.node < static_cast<int>(forward_)) {
        home = std::max(
            home, free_[static_cast<size_t>(value.node)] ? first_read_[static_cast<size_t>(id)] : value.node);
      } else if (value.kind == ValueKind::result && at(depends_, id) && !at(batched_, id)) {
        // It cannot pass to another stage, so its reader is where it is made.
        home = std::max(home, home_[static_cast<size_t>(value.node) - forward_]);
      } else if (value.kind == ValueKind::parameter) {
        home = std::max(home, first_read_[static_cast<size_t>(id)]);
      } else if (value.kind == ValueKind::gradient && graph_.has(ValueKind::parameter, value.name)) {
        const ValueId parameter = graph_.find(ValueKind::parameter, value.name);
        home = std::max(home, first_read_[static_cast<size_t>(parameter)]);
      }
    }
    home_.push_back(home);
  }
  for (size_t cut = 1; cut < forward_; ++cut) {
    const Node& node = graph_.nodes()[cut];
    const bool has_effect = node.op->has_effect() && !node.op->exchanges_samples();
    if (free_[cut] || has_effect || node.op->is_activation()) continue;
    if (crossing(cut).allowed) places_.push_back(cut);
  }
}

size_t StageCuts::backward_begin(size_t cut) const {
  size_t begin = 0;
  for (size_t b = 0; b < home_.size(); ++b) {
    if (home_[b] >= static_cast<int>(cut)) begin = b + 1;
  }
  return forward_ + begin;
}

std::vector<int> StageCuts::stages(const std::vector<size_t>& cuts) const {
  std::vector<int> stages(graph_.nodes().size(), 0);
  for (const size_t cut : cuts) {
    for (size_t n = cut; n < forward_; ++n) ++stages[n];
    const size_t begin = backward_begin(cut);
    for (size_t n = forward_; n < begin; ++n) ++stages[n];
  }
  for (size_t n = 0; n < stages.size(); ++n) {
    if (free_[n]) stages[n] = -1;
  }
  return stages;
}

StageCuts::Crossing StageCuts::crossing(size_t cut) const {
  const std::vector<int> stage = stages({cut});
  std::vector<std::array<bool, 2>> read(graph_.values().size());
  // Reads through nodes that belong to no stage count as reads of the node that needs them. Going backwards
  // reaches each reader before what it reads.
  std::vector<std::array<bool, 2>> node_read(graph_.nodes().size());
  for (size_t n = graph_.nodes().size(); n-- > 0;) {
    const Node& node = graph_.nodes()[n];
    if (stage[n] >= 0) {
      node_read[n][static_cast<size_t>(stage[n])] = true;
    } else {
      for (const ValueId id : node.outputs) {
        for (size_t s = 0; s < 2; ++s) node_read[n][s] = node_read[n][s] || read[static_cast<size_t>(id)][s];
      }
    }
    for (const ValueId id : node.inputs) {
      for (size_t s = 0; s < 2 && id != kNoValue; ++s)
        read[static_cast<size_t>(id)][s] = read[static_cast<size_t>(id)][s] || node_read[n][s];
    }
  }
  Crossing crossing;
  for (size_t v = 0; v < graph_.values().size(); ++v) {
    const Value& value = graph_.values()[v];
    const bool is_state = value.kind == ValueKind::parameter || value.is_buffer();
    if (is_state && read[v][0] && read[v][1]) crossing.allowed = false;
    if (value.kind != ValueKind::result || stage[static_cast<size_t>(value.node)] < 0) continue;
    if (!read[v][static_cast<size_t>(1 - stage[static_cast<size_t>(value.node)])]) continue;
    if (!batched_[v] || value.type.dtype == DType::opaque) crossing.allowed = false;
    crossing.bytes += static_cast<double>(value.type.bytes());
  }
  return crossing;
}

double StageCuts::crossing_bytes(size_t cut) const { return crossing(cut).bytes; }

std::vector<double> node_seconds(const Graph& gradient, const std::vector<OperationCost>& measured,
                                 const std::vector<bool>& left, double memory_speed) {
  using Key = std::pair<std::string, std::string>;
  const auto key_of = [](const Node& node) { return Key{node.scope, std::string(node.op->name())}; };
  std::map<Key, OperationCost> costs;
  std::map<Key, int> count;
  for (const OperationCost& cost : measured) costs[{cost.scope, cost.op}] = cost;
  for (const Node& node : gradient.nodes()) ++count[key_of(node)];
  std::vector<double> result;
  for (size_t n = 0; n < gradient.nodes().size(); ++n) {
    const Node& node = gradient.nodes()[n];
    if (!measured.empty()) {
      const OperationCost& cost = costs[key_of(node)];
      result.push_back((left[n] ? cost.batch : cost.micro_batches) / count[key_of(node)]);
      continue;
    }
    constexpr double kMultiplyAddsPerSecond = 5e10;
    const auto inputs = gradient.input_types(node);
    const auto outputs = gradient.output_types(node);
    double bytes = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue) bytes += static_cast<double>(inputs[i].bytes());
    }
    for (const TensorType& type : outputs) bytes += static_cast<double>(type.bytes());
    const auto work = static_cast<double>(node.op->multiply_adds(inputs, outputs, node.attributes));
    result.push_back(std::max(work / kMultiplyAddsPerSecond, bytes / memory_speed));
  }
  return result;
}

std::vector<ScheduledAction> one_forward_one_backward(int stage, int stages, int64_t micro_batches) {
  std::vector<ScheduledAction> actions;
  const int64_t ahead = std::min<int64_t>(micro_batches, 2 * (stages - 1 - stage));
  for (int64_t i = 0; i < ahead; ++i) actions.push_back(action::forward(i));
  for (int64_t i = ahead; i < micro_batches; ++i) {
    actions.push_back(action::forward(i));
    actions.push_back(action::backward(i - ahead));
  }
  for (int64_t i = micro_batches - ahead; i < micro_batches; ++i) actions.push_back(action::backward(i));
  return actions;
}

double simulate_step(const std::vector<StageSeconds>& stages, int64_t micro_batches) {
  const auto count = static_cast<int>(stages.size());
  std::vector<std::vector<ScheduledAction>> schedules;
  for (int s = 0; s < count; ++s) schedules.push_back(one_forward_one_backward(s, count, micro_batches));
  std::vector<std::vector<double>> forward(stages.size());
  std::vector<std::vector<double>> backward(stages.size());
  std::vector<double> now(stages.size(), 0.0);
  std::vector<size_t> next(stages.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < stages.size(); ++s) {
      while (next[s] < schedules[s].size()) {
        const bool goes_forward = schedules[s][next[s]].kind == action::kForward;
        auto& mine = goes_forward ? forward[s] : backward[s];
        const bool alone = goes_forward ? s == 0 : s + 1 == stages.size();
        const auto* before = alone ? nullptr : goes_forward ? &forward[s - 1] : &backward[s + 1];
        if (before != nullptr && before->size() <= mine.size()) break;
        if (before != nullptr) now[s] = std::max(now[s], (*before)[mine.size()]);
        now[s] += goes_forward ? stages[s].forward : stages[s].backward;
        mine.push_back(now[s]);
        ++next[s];
        moved = true;
      }
    }
  }
  double last = 0;
  for (size_t s = 0; s < stages.size(); ++s) last = std::max(last, now[s] + stages[s].weight_gradients);
  return last;
}

}  // namespace telar
