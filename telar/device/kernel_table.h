#pragma once

#include <map>
#include <string_view>

#include "telar/core/error.h"
#include "telar/graph/graph.h"

namespace telar {

/// The kernels of a device: for each operation, by name, the function that adds its steps to a `Lowering`.
/// Each file of the device's folder `kernels` registers its own (cmake/Registry.cmake).
template <typename Lowering>
class KernelTable {
 public:
  using Kernel = void (*)(Lowering&, const Node&);

  /// `operation` must have static lifetime. Throws Error (run) if it has a kernel already.
  void add(std::string_view operation, Kernel kernel) {
    if (!kernels_.emplace(operation, kernel).second)
      throw run_error("operation '{}' has two kernels on one device", operation);
  }

  /// Null when the device cannot compute the operation.
  Kernel find(std::string_view operation) const {
    const auto found = kernels_.find(operation);
    return found == kernels_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string_view, Kernel> kernels_;
};

}  // namespace telar
