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

/// A batch norm in training mode, optionally with a ReLU after it, or its gradients; for bf16 images with
/// channels last.
struct BatchNormForm {
  TensorType x;  ///< [N, C, H, W]; y, dy and dx have the same type
  float epsilon = 0;
  bool relu = false;
  bool backward = false;
};

/// The memory of a batch norm. Values per channel are f32, [C].
struct BatchNormMemory {
  void* x = nullptr;
  void* scale = nullptr;
  void* shift = nullptr;
  void* mean = nullptr;     ///< mean and inverse: written forwards, read backwards
  void* inverse = nullptr;  ///< 1 / √(variance + epsilon), of the biased variance
  void* y = nullptr;        ///< forwards only
  void* dy = nullptr;       ///< this and the following: backwards only
  void* dx = nullptr;       ///< must not be the memory of dy
  void* scale_gradient = nullptr;
  void* shift_gradient = nullptr;
  void* workspace = nullptr;
};

/// The ways to compute a batch norm: cuDNN's graphs and loops of ours. The fastest one is chosen.
class BatchNormPlans {
 public:
  /// `what` describes the batch norm in words.
  BatchNormPlans(Gpu& gpu, const std::string& what, const BatchNormForm& form);

  /// Whether there is another way than the loops.
  bool possible() const { return ways_.size() > 1 || ways_.chosen().has_value(); }
  size_t workspace() const { return ways_.workspace(); }

  /// all: loops that compute everything; after_graph: the rest after one of cuDNN's graphs.
  struct Loops {
    std::function<void()> all;
    std::function<void()> after_graph;
  };
  void choose(const BatchNormMemory& memory,
              const Loops& loops);  ///< measures once: equal layers share the plans
  void run(const BatchNormMemory& memory, const Loops& loops) const;

 private:
  /// A plan; empty for the loops.
  using Way = std::optional<Plan>;
  /// Adds all plans, or only the one that was chosen before.
  void find_ways();
  cudnnStatus_t enqueue(const Way& way, const BatchNormMemory& memory, const Loops& loops) const;

  Gpu& gpu_;
  BatchNormForm form_;
  Candidates<Way> ways_;
  bool chosen_ = false;
};

/// The ways to compute `form`, shared by equal layers; null when there are only the loops.
std::shared_ptr<BatchNormPlans> find_batch_norm_plans(const Lowering& lowering, ValueId x,
                                                      const BatchNormForm& form);

}  // namespace telar::cuda
