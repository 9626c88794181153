#include "telar/runtime/stage_updates.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace telar {

void StageUpdates::begin(size_t stage, const ByteRanges& ranges, Apply apply) {
  constexpr size_t kPiece = 256 << 10;  // bytes of parameters: some 50 us
  OfStage& own = stages_[stage];
  own.apply = std::move(apply);
  own.pieces.clear();
  for (auto [at, end] : ranges)
    for (; at < end; at += kPiece) own.pieces.emplace_back(at, std::min(at + kPiece, end));
  own.taken = 0;
  own.made = 0;
  own.finite = true;
}

bool StageUpdates::make(size_t stage, double sum_of_squares) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    OfStage& next = stages_[(stage + i) % stages_.size()];
    for (size_t p = next.taken++; p < next.pieces.size(); p = next.taken++) {
      const auto [begin, end] = next.pieces[p];
      if (!next.apply(begin, end, sum_of_squares)) next.finite = false;
      ++next.made;
    }
  }
  OfStage& own = stages_[stage];
  while (own.made < own.pieces.size()) std::this_thread::yield();
  return own.finite;
}

}  // namespace telar
