#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/core/shape.h"

namespace telar {

/// How a device stores one tensor. Two layouts are interchangeable when `format` and `shape` are equal.
struct TensorLayout {
  Shape shape;         ///< extents as the device counts them (grouped convolutions: [g, O/g, C/g, KH, KW])
  size_t bytes = 0;    ///< with padding
  std::string format;  ///< the device's name for it, e.g. "oihw" or "OIhw16i16o"
  std::shared_ptr<const void> native;  ///< the device's own description
};

/// Where every parameter lies in a flat arena. Parameters, gradients and each kind of optimizer state are
/// arenas of this one layout, in the order in which gradients become ready, so that a range of bytes means
/// the same parameters in all of them and an element-wise update runs over any range.
struct ArenaLayout {
  struct Entry {
    std::string name;
    size_t offset = 0;  ///< bytes, 64-byte aligned
    TensorLayout layout;
  };
  std::vector<Entry> entries;
  size_t bytes = 0;

  /// Throws Error (run) when there is no such parameter.
  const Entry& find(const std::string& name) const;
  /// Puts the tensors one behind the other, each aligned.
  static ArenaLayout pack(const std::vector<std::pair<std::string, TensorLayout>>& tensors);
};

}  // namespace telar
