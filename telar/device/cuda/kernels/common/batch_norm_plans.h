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
  /// `what` describes the batch norm in words. It has no ways before make().
  BatchNormPlans(Gpu& gpu, const std::string& what, const BatchNormForm& form);

  /// Makes the plans of all of them at once: cuDNN compiles each for half a second.
  static void make(const Gpu& gpu, const std::vector<BatchNormPlans*>& all);

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
  /// The search for all plans, or only for the one that was chosen before; none if the loops were.
  std::optional<PlanSearch> search() const;
  cudnnStatus_t enqueue(const Way& way, const BatchNormMemory& memory, const Loops& loops) const;

  Gpu& gpu_;
  BatchNormForm form_;
  Candidates<Way> ways_;
  bool chosen_ = false;
};

/// Plans batch norms, those of a graph, at once. find_batch_norm_plans() would plan them one by one.
void plan_batch_norms(Gpu& gpu, const std::vector<BatchNormForm>& forms);
void plan_batch_norms(Gpu& gpu, const Graph& graph);

/// The ways to compute `form`, shared by equal layers; null when there are only the loops.
std::shared_ptr<BatchNormPlans> find_batch_norm_plans(const Lowering& lowering, ValueId x,
                                                      const BatchNormForm& form);

}  // namespace telar::cuda
