#pragma once

#include <optional>
#include <string>

namespace telar::bench {

/// What a row computes on.
struct Place {
  int threads = 0;         ///< of the processors
  std::optional<int> gpu;  ///< its number; then no threads
  std::string impossible;  ///< why not here; empty when it can
};

/// "cpu": all threads that this process may use; "cpu:2": two; "cuda:1": the GPU of that number; "gpu": "cuda:0". Throws Error (user) for
/// another name. Whether there is such a GPU is found when it is used.
Place place_of(const std::string& device);

}  // namespace telar::bench
