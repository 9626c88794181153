#include <algorithm>
#include <vector>

#include "telar/comm/group.h"

namespace telar {

namespace {

/// One value of each member, in rank order.
template <typename T>
std::vector<T> of_all_members(Group& group, T value) {
  const auto size = static_cast<size_t>(group.size());
  std::vector<T> values(size, value);
  const std::vector<std::span<const std::byte>> outgoing(size, std::as_bytes(std::span(&value, 1)));
  std::vector<std::span<std::byte>> incoming;
  for (T& other : values) incoming.push_back(std::as_writable_bytes(std::span(&other, 1)));
  group.exchange(outgoing, incoming);
  return values;
}

}  // namespace

double sum_over_members(Group& group, double value) {
  double sum = 0;
  for (const double part : of_all_members(group, value)) sum += part;
  return sum;
}

uint64_t largest_of_members(Group& group, uint64_t value) { return std::ranges::max(of_all_members(group, value)); }

}  // namespace telar
