#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <span>
#include <string>
#include <vector>

#include "telar/core/attributes.h"
#include "telar/core/dtype.h"
#include "telar/core/shape.h"
#include "telar/nn/training_step.h"

namespace telar::python {

/// Any array in this machine's memory, by DLPack or the buffer protocol: NumPy's, PyTorch's.
using AnyArray = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;
using FloatArray = nanobind::ndarray<float, nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;
using IdArray =
    nanobind::ndarray<int64_t, nanobind::ro, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

/// From a dict of bool, int, float, str and lists of these. Throws Error (user), naming the attribute.
Attributes attributes_of(const nanobind::dict& values);

/// "f32" or "i32". Throws Error (user) for another name.
DType dtype_of(const std::string& name);

Shape shape_of(const AnyArray& array);
/// Whether the array's elements are of this type, f32 or i32.
bool has_dtype(const AnyArray& array, DType dtype);
std::span<const float> numbers_of(const FloatArray& array);

/// A NumPy array that owns these numbers.
nanobind::ndarray<nanobind::numpy, float> to_numpy(std::vector<float> numbers, const Shape& shape);

/// The optimizer with this name (sgd, adam, adamw, rmsprop, adagrad) and these options. Throws Error (user)
/// for an unknown name or option.
Optimizer optimizer_of(const std::string& name, const Attributes& options);

}  // namespace telar::python
