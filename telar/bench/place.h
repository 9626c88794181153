#pragma once

#include <optional>
#include <string>

namespace telar::bench {

/// The device that a row runs on.
struct Place {
  int threads = 0;         ///< CPU threads
  std::optional<int> gpu;  ///< the number of a GPU; `threads` is then not used
  std::string impossible;  ///< why it cannot run here; empty if it can
};

/// "cpu": all threads that this process may use; "cpu:2": two; "cuda:1": the GPU with that number; "gpu":
/// "cuda:0". Throws Error (user) for any other name. Does not check whether the GPU exists; its first use
/// does.
Place place_of(const std::string& device);

}  // namespace telar::bench
