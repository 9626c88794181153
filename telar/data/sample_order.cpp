#include "telar/data/sample_order.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/permutation.h"

namespace telar {

SampleOrder::SampleOrder(int64_t size, uint64_t seed, bool shuffle, int64_t together, std::string name)
    : size_(size), seed_(seed), shuffle_(shuffle), together_(together), name_(std::move(name)) {
  if (together < 1) throw user_error("Pieces of {} samples are not possible; at least 1 is needed", together);
}

void SampleOrder::read(uint32_t epoch, int64_t first, std::span<int64_t> samples) const {
  std::iota(samples.begin(), samples.end(), first);
  if (!shuffle_ || samples.empty()) return;
  const Permutation pieces(size_ / together_, seed_, fmt::format("shuffle/{}{}", epoch, name_));
  if (together_ == 1) return pieces.read(first, samples);
  const int64_t first_piece = first / together_;
  const int64_t last_piece = std::min(pieces.size(), samples.back() / together_ + 1);
  std::vector<int64_t> order(static_cast<size_t>(std::max<int64_t>(0, last_piece - first_piece)));
  pieces.read(first_piece, order);
  for (int64_t& sample : samples) {
    if (sample / together_ >= pieces.size()) break;
    sample = order[static_cast<size_t>(sample / together_ - first_piece)] * together_ + sample % together_;
  }
}

}  // namespace telar
