#include "telar/data/texts/window_places.h"

#include <algorithm>
#include <utility>

#include "telar/core/error.h"

namespace telar {

WindowPlaces::WindowPlaces(const std::string& path, const char* unit, const std::vector<int64_t>& tokens,
                           const WindowOptions& options)
    : options_(options) {
  int64_t windows = 0;
  for (const int64_t count : tokens) {
    // The last token of a window has a label, too.
    if (count > options.length) windows += (count - options.length - 1) / options.stride + 1;
    ends_.push_back(windows);
  }
  if (windows > 0) return;
  throw user_error("{}: {} has {} {}; a sample has data.length {}, and the one after it, {} in all", path,
                   tokens.size() == 1 ? "the file" : "the longest file", std::ranges::max(tokens), unit,
                   options.length, options.length + 1);
}

WindowPlaces::Place WindowPlaces::at(int64_t window) const {
  const auto text = static_cast<size_t>(std::ranges::upper_bound(ends_, window) - ends_.begin());
  return {text, (window - (text == 0 ? 0 : ends_[text - 1])) * options_.stride};
}

int64_t WindowPlaces::texts_without() const {
  int64_t before = 0;
  return std::ranges::count_if(ends_, [&](int64_t end) { return std::exchange(before, end) == end; });
}

}  // namespace telar
