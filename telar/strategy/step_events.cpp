#include "telar/strategy/step_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "telar/core/error.h"
#include "telar/graph/ops/stage.h"

namespace telar {

namespace {

class Recorder {
 public:
  Recorder(const Program& program, int64_t worker, size_t phase)
      : program_(program),
        kind_(program.worker(worker)),
        gradient_(gradient_in(kind_, phase)),
        schedule_(schedule_in(kind_, phase)),
        stage_(program.mesh.coordinate(worker, kStageAxis)) {
    for (const Holding& holding : kind_.holdings)
      kept_[holding.variable] = sizeof(float) * piece_of(program, holding, worker).floats();
    const int64_t samples = program.evaluation.batch();
    const int64_t parts = shares_of(program) * std::max<int64_t>(1, program.micro_batches);
    for (const Value& value : gradient_.values())
      if (value.kind == ValueKind::input && value.batched)
        of_graph_ = static_cast<double>(samples) / static_cast<double>(parts * value.type.shape[0]);
    // Neighbours in the same process read what a stage delivers when it says that it is done.
    const auto in_process = [&](int64_t stage) {
      if (stage < 0 || stage >= program.mesh.size(kStageAxis)) return false;
      const int64_t other = program.mesh.member(worker, {kStageAxis}, stage);
      return program.mesh.process_of(other) == program.mesh.process_of(worker);
    };
    before_ = in_process(stage_ - 1);
    after_ = in_process(stage_ + 1);
  }

  std::vector<StepEvent> run() {
    for (const ScheduledAction& scheduled : schedule_) add(scheduled);
    return std::move(events_);
  }

 private:
  using Kind = StepEvent::Kind;

  void add(const ScheduledAction& scheduled) {
    const ActionKind& kind = scheduled.kind;
    const int64_t micro_batch = scheduled.micro_batch.value_or(0);
    if (!scheduled.store.empty()) {
      events_.push_back({Kind::stores, text_of(scheduled), scheduled.store});
    } else if (kind == action::kComputeGradient) {
      add_nodes(gradient_, true, true);
    } else if (kind == action::kForward) {
      if (before_) neighbour(Kind::receives, stage_ - 1, "forward", micro_batch);
      add_nodes(gradient_, true, false);
      if (after_) neighbour(Kind::sends, stage_ + 1, "forward", micro_batch);
    } else if (kind == action::kBackward) {
      if (after_) neighbour(Kind::receives, stage_ + 1, "backward", micro_batch);
      add_nodes(gradient_, false, true);
      if (before_) neighbour(Kind::sends, stage_ - 1, "backward", micro_batch);
    } else if (kind == action::kWeightGradients) {
      add_nodes(kind_.weight_gradients, true, true);
    } else if (kind == action::kSumGradients) {
      for (size_t b = 0; b < program_.buckets.size(); ++b)
        if (kept_.contains(program_.buckets[b].parameters.front())) start(b);
    } else if (kind == action::kFinishExchange) {
      events_.push_back({Kind::finishes, "the sums of gradients"});
    } else if (kind == action::kReceiveForward || kind == action::kReceiveBackward) {
      messages(Kind::receives, kind == action::kReceiveForward, micro_batch);
    } else if (kind == action::kSendForward || kind == action::kSendBackward) {
      messages(Kind::sends, kind == action::kSendForward, micro_batch);
    } else if (kind == action::kExchangeMetrics || kind == action::kExchangeNorm ||
               kind == action::kWaitForAll) {
      if (kind == action::kExchangeNorm && trains_alone(schedule_)) return;
      StepEvent& event = add({Kind::meets, std::string(kind.name()), scheduled.group});
      if (kind == action::kExchangeMetrics) event.sums = sizeof(float) * program_.metrics.size();
    } else if (kind == action::kAverageParameters) {
      for (size_t b = 0; b < program_.buckets.size(); ++b) start(b);
      events_.push_back({Kind::finishes, "the mean of the parameters"});
    } else if (kind != action::kUpdateShard) {
      throw run_error("what '{}' exchanges is not known", text_of(scheduled));
    }
  }

  StepEvent& add(StepEvent event) {
    events_.push_back(std::move(event));
    return events_.back();
  }

  void start(size_t bucket) {
    if (bucket >= program_.buckets.size()) throw run_error("the program has no bucket {}", bucket);
    StepEvent& event = add({Kind::starts, fmt::format("bucket {}", bucket), program_.buckets[bucket].group});
    for (const std::string& name : program_.buckets[bucket].parameters) event.sums += kept_.at(name);
  }

  /// The exchanges of a graph, before its pause, after it, or both.
  void add_nodes(const Graph& graph, bool before, bool after) {
    bool wanted = before;
    for (const Node& node : graph.nodes()) {
      if (node.op->effect() == Effect::pauses) wanted = after;
      if (!wanted || !node.op->communicates()) continue;
      if (node.op->effect() == Effect::sums_gradients) {
        start(static_cast<size_t>(node.attributes.integer("bucket")));
      } else {
        StepEvent& event = add({Kind::meets, fmt::format("{} of layer '{}'", node.op->name(), node.scope),
                                node.attributes.text("group")});
        add_bytes(graph, node, event);
      }
    }
  }

  /// Members have nearly equal shares of samples, of features, and of rows of a parameter.
  void add_bytes(const Graph& graph, const Node& node, StepEvent& event) const {
    double bytes = 0;
    for (const TensorType& type : graph.input_types(node)) bytes += static_cast<double>(type.bytes());
    const auto members = static_cast<double>(program_.mesh.size(program_.along(event.partner)));
    const bool of_samples = node.op->exchanges_samples();
    if (!of_samples && !node.op->exchanges_parameters()) {
      event.sums = bytes * members / 2;
    } else {
      const bool whole = node.op->name().starts_with("all_gather");
      event.sends = bytes * (of_samples ? of_graph_ : 1) / (whole ? 1 : members);
    }
  }

  void neighbour(Kind kind, int64_t stage, const char* direction, int64_t micro_batch) {
    events_.push_back({kind, fmt::format("{} of micro-batch {}", direction, micro_batch), {}, stage});
  }

  void messages(Kind kind, bool forward, int64_t micro_batch) {
    for (const Crossing& crossing : kind_.crossings) {
      const bool sends = crossing.from == stage_;
      if (crossing.forward == forward && sends == (kind == Kind::sends))
        events_.push_back({kind,
                           fmt::format("{} of micro-batch {}", crossing.value, micro_batch),
                           {},
                           sends ? crossing.to : crossing.from,
                           0,
                           sends ? bytes_of(crossing.value) : 0});
    }
  }

  /// Of a value that the gradient graph delivers, for a micro-batch.
  double bytes_of(const std::string& value) const {
    for (const Node& node : gradient_.nodes())
      if (node.op->effect() == Effect::delivers && node.attributes.text("name") == value)
        return of_graph_ * static_cast<double>(gradient_.input_types(node).front().bytes());
    return 0;  // verify() says that it is missing
  }

  const Program& program_;
  const WorkerProgram& kind_;
  const Graph& gradient_;
  const std::vector<ScheduledAction>& schedule_;
  int64_t stage_;
  bool before_ = false;  // whether the stage before this one is in the same process
  bool after_ = false;
  double of_graph_ = 1;  // the samples of a run of the gradient graph, relative to those it was made for
  std::map<std::string, double> kept_;  // bytes
  std::vector<StepEvent> events_;
};

}  // namespace

std::vector<StepEvent> step_events(const Program& program, int64_t worker, size_t phase) {
  return Recorder(program, worker, phase).run();
}

}  // namespace telar
