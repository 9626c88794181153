#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "telar/comm/transfer.h"
#include "telar/graph/program.h"
#include "telar/runtime/stage_exchange.h"
#include "telar/runtime/step_context.h"

namespace telar {

/// The samples of a batch that a stage computes: its own, and those of each member of its group, if it
/// computes the batch together with others (BatchView::rows).
struct SampleCounts {
  int64_t own = 0;
  std::vector<int64_t> rows = {};
  bool non_finite = false;  ///< see BatchView

  explicit SampleCounts(const BatchView& batch)
      : own(batch.size), rows(batch.rows.begin(), batch.rows.end()), non_finite(batch.non_finite) {}
  SampleCounts(int64_t samples, bool some_non_finite) : own(samples), non_finite(some_non_finite) {}
  bool operator<(const SampleCounts& other) const {
    return std::tie(own, rows, non_finite) < std::tie(other.own, other.rows, other.non_finite);
  }
};

/// The samples of a micro-batch in a batch.
struct MicroBatchPart {
  int64_t first = 0;
  SampleCounts samples;
};
/// The micro-batches in which the stage has samples, or a member of its group has.
std::vector<MicroBatchPart> micro_batch_parts(const SampleCounts& batch, const Program& program);

/// The messages of a stage with stages of other processes, for batches of one size. They pass between the
/// stages' exchanges, in whose memory graphs read and deliver.
class StageMessages {
 public:
  /// Begins a run: lets everything arrive that this stage reads. Nobody may still need what arrived before.
  void start_receiving();

 private:
  friend class StageLink;
  struct Direction {
    std::vector<std::vector<Transfer*>> receives;  ///< by micro-batch
    std::vector<std::vector<Transfer*>> sends;
  };
  std::vector<std::unique_ptr<Transfer>> all_;
  Direction forward_;
  Direction backward_;
  std::vector<Transfer*> sent_;  ///< since start_receiving(), in order
  size_t left_ = 0;              ///< how many of them are known to have left
};

/// What connects a stage with the other stages of its pipeline, for one kind of graph. Stages of one process
/// share memory and wait for each other's progress; between processes, values pass in messages.
class StageLink {
 public:
  /// `crossings`: those in which the stage takes part. All arguments must outlive the link.
  StageLink(StepContext& worker, StageExchange& exchange, const std::vector<Crossing>& crossings);

  /// Declares the values that the graph delivers and reads. Called before any other stage works.
  void add_names(const Graph& graph);

  StageExchange& exchange() { return exchange_; }
  size_t stage() const { return stage_; }
  bool is_first_here() const { return stage_ == exchange_.here.begin; }

  /// Calls work() on one stage after the other, in order; the other stages wait. Work that adds to the
  /// exchange's layouts does so for the stages of all processes.
  void in_order(const std::function<void()>& work);
  /// Gives the exchange room for a batch. All stages call it.
  void reserve(int64_t batch);
  /// For the exchange's present memory.
  StageMessages messages(const std::vector<MicroBatchPart>& parts);

  /// Counts the micro-batches of a run from here.
  void begin();
  /// Waits until the stage before this one, if it is in this process, has delivered a micro-batch.
  void wait_forward(size_t micro_batch);
  void advance_forward() { exchange_.forward[stage_].advance(); }
  /// The same for the stage after this one.
  void wait_backward(size_t micro_batch);
  void advance_backward() { exchange_.backward[stage_].advance(); }

  /// Waits for what stages of other processes send of a micro-batch.
  void receive(StageMessages& messages, bool forward, size_t micro_batch);
  /// Starts to send to them.
  static void send(StageMessages& messages, bool forward, size_t micro_batch);
  /// Waits until everything that was sent has left.
  void finish_sending(StageMessages& messages);
  /// Advances what is being sent, without waiting.
  static void poll(StageMessages& messages);

 private:
  void wait_for(const StageProgress& progress, size_t micro_batch);
  void wait_for(Transfer& transfer);
  /// Records time in which the worker did not compute.
  void waited(std::chrono::steady_clock::time_point start);
  Group& group() const { return *worker_.group(worker_.program().stage_group); }

  StepContext& worker_;
  StageExchange& exchange_;
  const std::vector<Crossing>& crossings_;
  size_t stage_;       ///< among those of its pipeline
  int64_t begin_ = 0;  ///< micro-batches done in earlier runs
};

}  // namespace telar
