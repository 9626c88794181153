#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telar/device/cuda/cudnn_graph.h"
#include "telar/device/cuda/fastest.h"
#include "telar/device/cuda/lowering.h"

namespace telar::cuda {

/// A batch norm of a batch's own statistics, perhaps with a ReLU behind it, or its gradients; of bf16 images
/// with channels last.
struct BatchNormForm {
  TensorType x;  ///< [N, C, H, W]; y, dy and dx are alike
  float epsilon = 0;
  bool relu = false;
  bool backward = false;
};

/// The memory of a batch norm. What is of channels is f32, [C].
struct BatchNormMemory {
  void* x = nullptr;
  void* scale = nullptr;
  void* shift = nullptr;
  void* mean = nullptr;     ///< written forwards, read backwards, as the next one
  void* inverse = nullptr;  ///< 1 / √(variance + epsilon), of the biased variance
  void* y = nullptr;        ///< forwards
  void* dy = nullptr;       ///< backwards, as the following ones
  void* dx = nullptr;       ///< other memory than dy
  void* scale_gradient = nullptr;
  void* shift_gradient = nullptr;
  void* workspace = nullptr;
};

/// The ways to compute a batch norm: cuDNN's graphs, and loops of ours, of which the fastest is chosen.
class BatchNormPlans {
 public:
  /// `what`: all of it in words.
  BatchNormPlans(Gpu& gpu, const std::string& what, const BatchNormForm& form);

  /// Whether there is another way than the loops.
  bool possible() const { return ways_.size() > 1 || ways_.chosen().has_value(); }
  size_t workspace() const { return ways_.workspace(); }

  /// The loops, which compute all, and what is to be done after a graph of cuDNN's.
  struct Loops {
    std::function<void()> all;
    std::function<void()> after_graph;
  };
  void choose(const BatchNormMemory& memory, const Loops& loops);  ///< once: layers that are alike share it
  void run(const BatchNormMemory& memory, const Loops& loops) const;

 private:
  /// A plan, or, without one, the loops.
  using Way = std::optional<Plan>;
  /// Adds the plans, or that which was chosen before.
  void find_ways();
  cudnnStatus_t enqueue(const Way& way, const BatchNormMemory& memory, const Loops& loops) const;

  Gpu& gpu_;
  BatchNormForm form_;
  Candidates<Way> ways_;
  bool chosen_ = false;
};

/// The ways for a node's form, which layers that are alike share; null where there are only the loops.
std::shared_ptr<BatchNormPlans> find_batch_norm_plans(const Lowering& lowering, ValueId x,
                                                      const BatchNormForm& form);

}  // namespace telar::cuda
