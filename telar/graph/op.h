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

/// What an operation does besides computing its outputs.
enum class Effect : uint8_t {
  none,
  accumulates,     ///< adds input 1 to the buffer that is input 0
  updates,         ///< changes the parameter that is input 0, by an optimizer's rule
  sums_gradients,  ///< starts the sum of a bucket of gradients over the group; the host does it
  exchanges,       ///< exchanges values with a group; the host does it
  delivers,        ///< passes input 0 to other graphs, under the name that its attribute "name" gives
  pauses           ///< a run of the graph halts here and later continues
};

/// Whose samples axis 0 of the result of an exchange counts.
enum class ExchangedSamples : uint8_t {
  none,       ///< it exchanges no samples
  gives_all,  ///< those of all members
  gives_own   ///< those of the member
};

/// The part of an operation in the fusion of ReLUs (telar/graph/fuse_activations.h).
enum class ReluFusion : uint8_t {
  none,
  relu,                 ///< is a ReLU
  relu_backward,        ///< is its gradient: input 0 is dy, input 1 the ReLU's output
  takes_relu,           ///< with the attribute activation = "relu", applies a ReLU to output 0
  takes_relu_forwards,  ///< the same, if the operation's gradient takes the ReLU's gradient
  takes_relu_backwards  ///< is such a gradient; input 3 is the last output of the operation
};

/// The part of an operation in computing with whole numbers, of which bf16 holds those up to 256 only
/// (telar/graph/mixed_precision.h).
enum class WholeNumbers : uint8_t {
  none,
  begins,  ///< makes numbers of indices
  keeps,   ///< its results are exact only if its operands are, as a sum of whole numbers, or 1 / n
  ends     ///< jumps at a number, as a comparison does
};

/// A kind of operation: its shape rule, its gradient, and what else the rest of the program must know of it,
/// so that no other file names it. Stateless; there is one constant object per kind, in
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

  /// An operation with an effect is never removed as unused.
  virtual Effect effect() const { return Effect::none; }
  bool has_effect() const { return effect() != Effect::none; }
  /// True when the runtime, not the device, executes the operation (HostOperations::communicate).
  bool communicates() const { return effect() == Effect::sums_gradients || effect() == Effect::exchanges; }
  /// Whether the members of a group exchange samples or their features (HostOperations::exchange). Such an
  /// operation has the attributes "rows", those of each member, and "each", those of a sample, and a
  /// gradient.
  virtual ExchangedSamples exchanged_samples() const { return ExchangedSamples::none; }
  bool exchanges_samples() const { return exchanged_samples() != ExchangedSamples::none; }
  /// Whether the members of a group exchange pieces of parameters or of their gradients
  /// (HostOperations::exchange). Such an operation has a gradient, and members without samples take part.
  virtual bool exchanges_parameters() const { return false; }

  /// The attributes with which the operation computes features [begin, end), if it computes them from these
  /// features of its inputs alone; none when a feature depends on others. Features are the items of axis 1,
  /// or those of a vector. `x`: the type of the first input with all features.
  virtual std::optional<Attributes> for_features(const Attributes& /*attributes*/, const TensorType& /*x*/,
                                                 int64_t /*begin*/, int64_t /*end*/) const {
    return std::nullopt;
  }
  /// True when each feature of the result is a sum over the features of input 0, weighted by input 1,
  /// [out, in, …], plus a bias, input 2 [out], if there is one.
  virtual bool is_weighted_sum(const Attributes& /*attributes*/) const { return false; }

  /// True when the operation may compute in bf16 (inputs and outputs bf16; statistics and parameters f32
  /// where its documentation says so). False keeps it in f32 under `precision: bf16`.
  virtual bool bf16() const { return false; }

  /// True when an input with one axis may be bf16 like any other. False: such an input is a bias, scale or
  /// statistic, which stays f32.
  virtual bool bf16_vectors() const { return false; }

  /// False for an input of which only the shape is used: it needs no conversion.
  virtual bool reads_values(size_t /*input*/) const { return true; }

  /// The number of different indices that input 0 may contain (tokens of an embedding); 0: it contains none.
  virtual int64_t index_count(const std::vector<TensorType>& /*inputs*/) const { return 0; }

  /// The number of different labels that input 1 may contain (of a classification); 0: it contains none.
  virtual int64_t label_count(const std::vector<TensorType>& /*inputs*/) const { return 0; }

  /// True for a function of one tensor, element by element, without attributes.
  virtual bool is_activation() const { return false; }

  /// True when the output is the memory of input 0 with another shape.
  virtual bool is_view() const { return false; }

  virtual WholeNumbers whole_numbers() const { return is_view() ? WholeNumbers::keeps : WholeNumbers::none; }

  virtual ReluFusion relu_fusion() const { return ReluFusion::none; }

  /// True when the attribute winograd = true lets the operation choose that algorithm.
  virtual bool has_winograd() const { return false; }

  /// Number of multiply-adds of one evaluation, for `telar show` and the planner; 0 for operations that are
  /// bound by memory.
  virtual int64_t multiply_adds(const std::vector<TensorType>& /*inputs*/,
                                const std::vector<TensorType>& /*outputs*/,
                                const Attributes& /*attributes*/) const {
    return 0;
  }
};

}  // namespace telar
