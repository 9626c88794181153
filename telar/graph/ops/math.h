#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Functions of one tensor, element by element. x: any shape, f32 (also under `precision: bf16`); y: the same
/// type. Where a derivative is infinite, so is the gradient, as in PyTorch.
ValueId exp(GraphBuilder& builder, ValueId x);
ValueId log(GraphBuilder& builder, ValueId x);                   ///< of numbers above 0
ValueId sin(GraphBuilder& builder, ValueId x);                   ///< of radians
ValueId cos(GraphBuilder& builder, ValueId x);                   ///< of radians
ValueId atan(GraphBuilder& builder, ValueId x);                  ///< in radians
ValueId erf(GraphBuilder& builder, ValueId x);                   ///< the error function
ValueId log1p(GraphBuilder& builder, ValueId x);                 ///< log(1 + x), also for small x
ValueId expm1(GraphBuilder& builder, ValueId x);                 ///< e^x − 1, also for small x
ValueId floor(GraphBuilder& builder, ValueId x);                 ///< it has no gradient: nothing flows to x
ValueId round(GraphBuilder& builder, ValueId x);                 ///< halves to even numbers; no gradient
ValueId pow(GraphBuilder& builder, ValueId x, double exponent);  ///< √x is pow(x, 0.5), 1 / x is pow(x, −1)
/// min(max(x, least), most). At the limits the gradient passes, as in PyTorch. Throws Error (user) unless
/// least ≤ most.
ValueId clamp(GraphBuilder& builder, ValueId x, double least, double most);
/// 1 where least ≤ x ≤ most, else 0. It has no gradient: nothing flows to x.
ValueId within(GraphBuilder& builder, ValueId x, double least, double most);

/// a / b, as a · b⁻¹; shapes as `mul`.
ValueId divide(GraphBuilder& builder, ValueId a, ValueId b);

}  // namespace telar
