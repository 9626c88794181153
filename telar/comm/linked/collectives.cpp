#include "telar/comm/linked/collectives.h"

#include <algorithm>
#include <memory>
#include <numeric>

namespace telar {

Circle circle_of_all(ProcessLinks& links, const Watch& watch, Lane lane, int tag) {
  std::vector<int> ranks(static_cast<size_t>(links.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {links, watch, std::move(ranks), links.rank(), lane, tag};
}

void gather_rows(const Circle& circle, std::span<std::byte> rows, const std::function<void()>& nap) {
  const auto size = static_cast<size_t>(circle.size());
  const auto own = static_cast<size_t>(circle.index);
  const size_t row = rows.size() / size;
  std::vector<std::byte> turned(rows.size());  // begins with this process's row
  std::ranges::copy(rows.subspan(own * row, row), turned.begin());
  for (size_t have = 1; have < size; have *= 2) {
    const size_t bytes = std::min(have, size - have) * row;
    const std::span<std::byte> all(turned);
    const auto sent = started(
        circle.links.to(circle.ranks[(own + size - have) % size], circle.lane, circle.tag, all.first(bytes)));
    const auto received = started(circle.links.from(circle.ranks[(own + have) % size], circle.lane,
                                                    circle.tag, all.subspan(have * row, bytes)));
    circle.watch.wait_until([&] {
      if (received->done() && sent->done()) return true;
      if (nap) nap();
      return false;
    });
  }
  for (size_t i = 0; i < size; ++i)
    std::copy_n(turned.begin() + static_cast<std::ptrdiff_t>(i * row), row,
                rows.begin() + static_cast<std::ptrdiff_t>((own + i) % size * row));
}

void spread(const Circle& circle, std::span<std::byte> bytes, int from) {
  constexpr size_t kMost = size_t{16} << 20;  // a message; the next ones follow it down the tree
  const int size = circle.size();
  const int place = (circle.index - from + size) % size;  // in the tree; its root is 0
  const auto rank = [&](int at) { return circle.ranks[static_cast<size_t>((at + from) % size)]; };
  int level = 1;  // twice the highest bit of place: the parent lacks it, the children have a higher one
  while (level <= place) level *= 2;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(kMost, bytes.size()))) {
    const std::span<std::byte> part = bytes.first(std::min(kMost, bytes.size()));
    if (place > 0)
      circle.watch.wait(*started(circle.links.from(rank(place - level / 2), circle.lane, circle.tag, part)));
    std::vector<std::unique_ptr<Transfer>> sends;
    for (int child = level; place + child < size; child *= 2)
      sends.push_back(started(circle.links.to(rank(place + child), circle.lane, circle.tag, part)));
    circle.watch.wait(sends);
  }
}

void meet(ProcessLinks& links, const Watch& watch, Lane lane, int tag, const std::function<void()>& nap) {
  std::vector<std::byte> rows(static_cast<size_t>(links.size()));
  gather_rows(circle_of_all(links, watch, lane, tag), rows, nap);
}

}  // namespace telar
