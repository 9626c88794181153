#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace telar {

/// The kind of an action, by name. Strategies use the functions below, so a misspelt name does not compile.
class ActionKind {
 public:
  /// `name`: of the action's file in telar/runtime/actions; a literal.
  explicit constexpr ActionKind(std::string_view name) : name_(name) {}
  constexpr std::string_view name() const { return name_; }
  bool operator==(const ActionKind&) const = default;

 private:
  std::string_view name_;
};

/// Name of the group that all workers of a program form.
inline constexpr const char* kAllWorkers = "all";
/// Usual name of the store that a program's parameter servers form.
inline constexpr const char* kServers = "servers";

/// An action of a worker's step, done in every step whose number is divisible by `every`: the number of the
/// job's step where workers go in step, otherwise of the worker's, from 1.
struct ScheduledAction {
  ActionKind kind;
  int64_t every = 1;
  /// Instead, it is done in the last step of each piece of work (Cooperation::work_steps), which has at most
  /// `every` steps.
  bool after_work = false;
  std::optional<int64_t> micro_batch = {};  ///< of a pipeline's batch
  std::string group = kAllWorkers;          ///< the workers with which it exchanges, if it does
  std::string store = {};                   ///< with which it exchanges; empty: with none
  std::string payload = {};  ///< of what it pushes (telar/io/payload.h); empty: all values as they are
  double share = 1;          ///< of the values, for a payload that chooses

  bool operator==(const ScheduledAction&) const = default;
};

/// The actions that a strategy can schedule. Each is a class in telar/runtime/actions.
namespace action {

inline constexpr ActionKind kComputeGradient("compute_gradient");
inline constexpr ActionKind kFinishExchange("finish_exchange");
inline constexpr ActionKind kExchangeMetrics("exchange_metrics");
inline constexpr ActionKind kExchangeNorm("exchange_norm");
inline constexpr ActionKind kUpdateShard("update_shard");
inline constexpr ActionKind kWaitForAll("wait_for_all");
inline constexpr ActionKind kPushGradient("push_gradient");
inline constexpr ActionKind kPushDifference("push_difference");
inline constexpr ActionKind kPull("pull");
inline constexpr ActionKind kForward("forward");
inline constexpr ActionKind kBackward("backward");
inline constexpr ActionKind kWeightGradients("weight_gradients");
inline constexpr ActionKind kReceiveForward("receive_forward");
inline constexpr ActionKind kSendForward("send_forward");
inline constexpr ActionKind kReceiveBackward("receive_backward");
inline constexpr ActionKind kSendBackward("send_backward");
inline constexpr ActionKind kSumGradients("sum_gradients");
inline constexpr ActionKind kAverageParameters("average_parameters");

/// Runs the gradient graph over the worker's part of the batch; this starts the sums of buckets.
inline ScheduledAction compute_gradient() { return {.kind = kComputeGradient}; }
/// Waits until the worker's shard of every bucket holds the sum over the group.
inline ScheduledAction finish_exchange() { return {.kind = kFinishExchange}; }
/// Sums the metric buffers over the group.
inline ScheduledAction exchange_metrics() { return {.kind = kExchangeMetrics}; }
/// Sums the squared gradient norm over the group (only when the update clips).
inline ScheduledAction exchange_norm() { return {.kind = kExchangeNorm}; }
/// Applies the optimizer to the worker's shard of the parameters.
inline ScheduledAction update_shard() { return {.kind = kUpdateShard}; }
/// Waits until every member's shard is updated: the parameters are then complete again.
inline ScheduledAction wait_for_all() { return {.kind = kWaitForAll}; }

/// Sends the gradient sums of a piece of work, of at most `every` steps, to the servers, in this payload.
inline ScheduledAction push_gradient(int64_t every = 1, std::string payload = {}, double share = 1) {
  return {.kind = kPushGradient,
          .every = every,
          .after_work = true,
          .store = kServers,
          .payload = std::move(payload),
          .share = share};
}
/// Sends samples × (parameters at the last pull − parameters) to the servers, after each piece of work.
inline ScheduledAction push_difference(int64_t every) {
  return {.kind = kPushDifference, .every = every, .after_work = true, .store = kServers};
}
/// Receives the servers' parameters.
inline ScheduledAction pull(int64_t every = 1) { return {.kind = kPull, .every = every, .store = kServers}; }
/// The same, after each piece of work.
inline ScheduledAction pull_after_work(int64_t every) {
  return {.kind = kPull, .every = every, .after_work = true, .store = kServers};
}

/// Of a pipeline stage: runs the gradient graph up to its `pause`, once its inputs are delivered. The
/// micro-batches of a step pass in order.
inline ScheduledAction forward(int64_t micro_batch) { return {.kind = kForward, .micro_batch = micro_batch}; }
/// Of a pipeline stage: runs the rest of the gradient graph, from its `pause` on.
inline ScheduledAction backward(int64_t micro_batch) {
  return {.kind = kBackward, .micro_batch = micro_batch};
}
/// Of a pipeline stage: runs the graph of weight gradients over all micro-batches at once.
inline ScheduledAction weight_gradients() { return {.kind = kWeightGradients}; }

/// Of a pipeline stage with neighbours in other processes: waits until what these send of a micro-batch has
/// arrived, before forward() or backward() reads it.
inline ScheduledAction receive_forward(int64_t micro_batch) {
  return {.kind = kReceiveForward, .micro_batch = micro_batch};
}
inline ScheduledAction receive_backward(int64_t micro_batch) {
  return {.kind = kReceiveBackward, .micro_batch = micro_batch};
}
/// Of a pipeline stage with neighbours in other processes: starts to send what forward() or backward() has
/// delivered to them of a micro-batch. Does not wait.
inline ScheduledAction send_forward(int64_t micro_batch) {
  return {.kind = kSendForward, .micro_batch = micro_batch};
}
inline ScheduledAction send_backward(int64_t micro_batch) {
  return {.kind = kSendBackward, .micro_batch = micro_batch};
}
/// Starts the sums of all buckets, when the gradients of all micro-batches are complete.
inline ScheduledAction sum_gradients() { return {.kind = kSumGradients}; }
/// Gives all workers the mean of their parameters. In a phase with this action each worker trains on its own
/// (trains_alone()); optimizer state stays its own.
inline ScheduledAction average_parameters(int64_t every) {
  return {.kind = kAverageParameters, .every = every};
}

}  // namespace action

}  // namespace telar
