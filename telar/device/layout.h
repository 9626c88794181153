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
  std::string format;  ///< the device's name for the layout, e.g. "oihw" or "OIhw16i16o"
  std::shared_ptr<const void> native;  ///< the device's own descriptor
};

/// The offset of each parameter in a flat arena. The arenas of parameters, gradients and each kind of
/// optimizer state all have this layout. Parameters are in the order in which their gradients become ready. A
/// range of bytes therefore means the same parameters in every arena, and an element-wise update can run over
/// any range.
struct ArenaLayout {
  struct Entry {
    std::string name;
    size_t offset = 0;  ///< bytes, 64-byte aligned
    TensorLayout layout;
  };
  std::vector<Entry> entries;
  size_t bytes = 0;

  bool has(const std::string& name) const;
  /// Throws Error (run) when there is no such parameter.
  const Entry& find(const std::string& name) const;
  /// Places the tensors one after the other, each aligned.
  static ArenaLayout pack(const std::vector<std::pair<std::string, TensorLayout>>& tensors);
};

}  // namespace telar
