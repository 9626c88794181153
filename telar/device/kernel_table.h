#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/graph/graph.h"

namespace telar {

/// The kernels of a device: for each operation, by name, the function that adds its steps to a `Lowering`.
/// Each file of the device's folder `kernels` registers its own (cmake/Registry.cmake).
template <typename Lowering>
class KernelTable {
 public:
  using Kernel = std::function<void(Lowering&, const Node&)>;

  /// Throws Error (run) if the operation has a kernel already.
  void add(const std::string& operation, Kernel kernel) {
    if (!kernels_.emplace(operation, std::move(kernel)).second)
      throw run_error("operation '{}' has two kernels on one device", operation);
  }

  /// Null when the device cannot compute the operation.
  const Kernel* find(std::string_view operation) const {
    const auto found = kernels_.find(operation);
    return found == kernels_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, Kernel, std::less<>> kernels_;
};

}  // namespace telar
