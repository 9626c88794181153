#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "telar/core/attributes.h"
#include "telar/core/dtype.h"
#include "telar/core/shape.h"

namespace telar {

class GradientContext;

/// A value in a graph: an index into Graph::values().
using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  /// Bytes of a tensor of this type; 0 for `opaque`. Throws Error (user), naming the extents, if there are
  /// more than a process can address.
  int64_t bytes() const;
  /// "f32 [32, 10]".
  std::string str() const;
  bool operator==(const TensorType&) const = default;
};

/// A kind of operation: its shape rule and its gradient. Stateless; there is one constant object per kind, in
/// its own file under graph/ops, together with the function that adds it to a graph. Devices find their
/// kernel by `name`.
class Op {
 public:
  virtual ~Op() = default;

  virtual std::string_view name() const = 0;

  /// Types of the outputs for these inputs. A graph is inferred again for each batch size, so the rule must
  /// hold for any extent of axis 0 of batched inputs. Throws Error (user), naming the shapes, when they do
  /// not fit.
  virtual std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                        const Attributes& attributes) const = 0;

  /// Adds the nodes that compute the gradient of each input from the gradients of the outputs, through
  /// `context`. The default throws Error (user): the operation cannot be differentiated.
  virtual void gradient(GradientContext& context) const;

  /// True when the operation changes a buffer or communicates with other workers: it is never removed as
  /// unused.
  virtual bool has_effect() const { return false; }

  /// True when the operation may compute in bf16 (inputs and outputs bf16; statistics and parameters f32
  /// where its documentation says so). False keeps it in f32 under `precision: bf16`.
  virtual bool bf16() const { return false; }

  /// False for an input of which only the shape is used: it needs no conversion.
  virtual bool reads_values(size_t /*input*/) const { return true; }

  /// Number of multiply-adds of one evaluation, for `telar show` and the planner; 0 for operations that are
  /// bound by memory.
  virtual int64_t multiply_adds(const std::vector<TensorType>& /*inputs*/,
                                const std::vector<TensorType>& /*outputs*/,
                                const Attributes& /*attributes*/) const {
    return 0;
  }
};

}  // namespace telar
