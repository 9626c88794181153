#include "telar/bench/place.h"

#include <fmt/format.h>

#include <charconv>

#include "telar/core/error.h"
#include "telar/device/cuda.h"
#include "telar/observe/process.h"

namespace telar::bench {

Place place_of(const std::string& device) {
  if (device == "cpu") return {available_threads(), std::nullopt, {}};
  if (const std::optional<int> gpu = cuda_number(device)) return {0, gpu, {}};
  int threads = 0;
  const std::string number = device.starts_with("cpu:") ? device.substr(4) : "";
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), threads);
  if (number.empty() || error != std::errc() || end != number.data() + number.size() || threads < 1)
    throw user_error(
        "there is no device '{}'; it must be cpu (all threads), cpu:N (N threads), cuda (cuda:0) or cuda:N",
        device);
  if (threads > available_threads())
    return {0, std::nullopt,
            fmt::format("this process may use {} thread{}", available_threads(),
                        available_threads() == 1 ? "" : "s")};
  return {threads, std::nullopt, {}};
}

}  // namespace telar::bench
