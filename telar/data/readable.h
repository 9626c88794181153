#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// A sample that cannot be read, and why.
struct UnreadableSample {
  int64_t index = 0;
  std::string reason;
};

struct ReadCheck {
  int threads = 1;
  /// Called about every second with the number of samples read so far; may be empty. False gives up.
  std::function<bool(int64_t done)> watch;
};

/// Checks one item, by index. Throws Error (user) if the item is not valid.
using ItemCheck = std::function<void(int64_t index)>;

/// Checks the items 0 … count-1 with several threads, each item once, and returns those that are not valid,
/// by index. Each thread uses its own result of `make_check`. Other errors are thrown on; Error (run) if
/// `watch` gave up.
std::vector<UnreadableSample> check_items(int64_t count, const ReadCheck& options,
                                          const std::function<ItemCheck()>& make_check);

/// Reads every sample once, with several threads, and returns those whose read() throws Error (user), by
/// index. Fills the cache of a dataset that has one. Other errors as in check_items().
std::vector<UnreadableSample> unreadable_samples(const Dataset& data, const ReadCheck& options);

/// The dataset without these samples, whose indices are ascending.
DatasetPtr without_samples(DatasetPtr data, const std::vector<int64_t>& samples);

}  // namespace telar
