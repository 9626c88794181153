#include "telar/data/division.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/random.h"
#include "telar/core/suggest.h"
#include "telar/data/permutation.h"

namespace telar {

namespace {

using SampleNumbers = std::vector<int64_t>;

constexpr std::array<std::pair<const char*, SplitBy>, 5> kSplits = {{{"random", SplitBy::random},
                                                                     {"stratified", SplitBy::stratified},
                                                                     {"group", SplitBy::group},
                                                                     {"time", SplitBy::time},
                                                                     {"column", SplitBy::column}}};
constexpr std::string_view kStream = "validation";

/// The numbers at the positions first … first + count - 1 of the order of a Fisher–Yates shuffle of
/// 0 … size-1, for which it takes an array of all.
SampleNumbers read_shuffled(int64_t size, int64_t first, int64_t count, uint64_t seed) {
  std::vector<uint32_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0U);
  RandomSequence random(seed, stream_of(kStream.data(), kStream.size()));
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(static_cast<uint32_t>(left))]);
  return {order.begin() + first, order.begin() + first + count};
}

/// The same number of samples must be divided in the same way by every version: a checkpoint would otherwise
/// be tested on samples that it has been trained on. So this order is still that of the first versions,
/// except for more samples than those had memory for.
SampleNumbers read_order(int64_t size, int64_t first, int64_t count, uint64_t seed) {
  constexpr int64_t kMostShuffled = int64_t{1} << 24U;
  if (size <= kMostShuffled) return read_shuffled(size, first, count, seed);
  SampleNumbers numbers(static_cast<size_t>(count));
  Permutation(size, seed, kStream).read(first, numbers);
  return numbers;
}

/// Where fold 0 … folds of `size` samples begins; the first ones are larger by one, if any are.
int64_t fold_begin(int64_t size, int64_t folds, int64_t fold) {
  return fold * (size / folds) + std::min(fold, size % folds);
}

SampleNumbers random_samples(int64_t size, const HeldOutShare& share, int64_t wanted, uint64_t seed) {
  if (share.folds == 0) return read_order(size, 0, wanted, seed);
  const int64_t first = fold_begin(size, share.folds, share.fold - 1);
  return read_order(size, first, fold_begin(size, share.folds, share.fold) - first, seed);
}

std::map<int64_t, int64_t> counts_of(const SplitKeys& keys) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t key : keys) ++counts[key];
  return counts;
}

/// Of each class, how many of its samples are among `wanted`: its share, rounded by the largest remainders.
std::map<int64_t, int64_t> quotas_of(const std::map<int64_t, int64_t>& counts, int64_t size, int64_t wanted) {
  std::map<int64_t, int64_t> quotas;
  std::vector<std::pair<double, int64_t>> remainders;
  int64_t given = 0;
  for (const auto& [key, count] : counts) {
    const double share = static_cast<double>(count) * static_cast<double>(wanted) / static_cast<double>(size);
    quotas[key] = static_cast<int64_t>(std::floor(share));
    given += quotas[key];
    remainders.emplace_back(std::floor(share) - share, key);
  }
  std::ranges::sort(remainders);
  for (size_t i = 0; given < wanted; ++i, ++given) ++quotas[remainders[i].second];
  return quotas;
}

SampleNumbers stratified_samples(const SplitKeys& keys, const HeldOutShare& share, int64_t wanted,
                                 uint64_t seed) {
  const auto size = static_cast<int64_t>(keys.size());
  const auto counts = counts_of(keys);
  std::map<int64_t, int64_t> left = quotas_of(counts, size, wanted);
  // Samples in the order of their classes are dealt to the folds in turn.
  std::map<int64_t, int64_t> next;
  int64_t before = 0;
  for (const auto& [key, count] : counts) {
    next[key] = before;
    before += count;
  }
  SampleNumbers held_out;
  for (const int64_t sample : read_order(size, 0, size, seed)) {
    const int64_t key = keys[static_cast<size_t>(sample)];
    const bool taken = share.folds == 0 ? left[key]-- > 0 : next[key]++ % share.folds == share.fold - 1;
    if (taken) held_out.push_back(sample);
  }
  return held_out;
}

/// A group and the number of its samples.
using GroupSize = std::pair<int64_t, int64_t>;

std::vector<int64_t> groups_of_fold(std::vector<GroupSize> groups, const HeldOutShare& share) {
  std::ranges::stable_sort(groups, std::ranges::greater(), &GroupSize::second);
  SampleNumbers sizes(static_cast<size_t>(share.folds));
  std::vector<int64_t> chosen;
  for (const auto& [group, count] : groups) {
    const auto smallest = std::ranges::min_element(sizes);
    *smallest += count;
    if (smallest - sizes.begin() == share.fold - 1) chosen.push_back(group);
  }
  return chosen;
}

/// Groups with about `wanted` samples, in their order; those that would lead away from it are passed over.
std::vector<int64_t> groups_of_fraction(const std::vector<GroupSize>& groups, int64_t size, int64_t wanted) {
  std::vector<int64_t> chosen;
  int64_t samples = 0;
  for (const auto& [group, count] : groups) {
    if (samples + count == size || std::abs(samples + count - wanted) >= std::abs(samples - wanted)) continue;
    samples += count;
    chosen.push_back(group);
  }
  if (chosen.empty()) chosen.push_back(std::ranges::min_element(groups, {}, &GroupSize::second)->first);
  return chosen;
}

SampleNumbers samples_of_groups(const SplitKeys& keys, const HeldOutShare& share, int64_t wanted,
                                uint64_t seed) {
  const auto counts = counts_of(keys);
  const auto count = std::ssize(counts);
  if (count < std::max<int64_t>(2, share.folds))
    throw user_error("the samples have {} group{}, but {} are needed: each is in one part only", count,
                     count == 1 ? "" : "s", std::max<int64_t>(2, share.folds));
  const std::vector<GroupSize> sorted(counts.begin(), counts.end());
  std::vector<GroupSize> groups;
  for (const int64_t at : read_order(count, 0, count, seed))
    groups.push_back(sorted[static_cast<size_t>(at)]);
  std::vector<int64_t> chosen = share.folds == 0 ? groups_of_fraction(groups, std::ssize(keys), wanted)
                                                 : groups_of_fold(std::move(groups), share);
  std::ranges::sort(chosen);
  SampleNumbers held_out;
  for (size_t i = 0; i < keys.size(); ++i)
    if (std::ranges::binary_search(chosen, keys[i])) held_out.push_back(static_cast<int64_t>(i));
  return held_out;
}

/// The position nearest to `wanted` at which the sorted times change, so that none is on both sides.
int64_t change_near(const SampleNumbers& times, int64_t wanted) {
  const auto changes = [&](int64_t at) {
    return at <= 0 || at >= std::ssize(times) ||
           times[static_cast<size_t>(at)] != times[static_cast<size_t>(at) - 1];
  };
  int64_t distance = 0;
  while (!changes(wanted + distance) && !changes(wanted - distance)) ++distance;
  return changes(wanted + distance) ? wanted + distance : wanted - distance;
}

DividedSamples divide_by_time(const SplitKeys& keys, const HeldOutShare& share, int64_t wanted) {
  const auto size = static_cast<int64_t>(keys.size());
  SampleNumbers order(keys.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, {}, [&](int64_t sample) { return keys[static_cast<size_t>(sample)]; });
  SampleNumbers times;
  for (const int64_t sample : order) times.push_back(keys[static_cast<size_t>(sample)]);
  const int64_t stretch = share.folds == 0 ? wanted : size / (share.folds + 1);
  const int64_t later = share.folds == 0 ? 0 : share.folds - share.fold;  // stretches behind the fold
  const int64_t begin = change_near(times, size - (later + 1) * stretch);
  const int64_t end = change_near(times, size - later * stretch);
  if (begin <= 0 || begin >= end)
    throw user_error(
        "the samples have {} different times, which cannot be divided so: all samples of one time are in one part",
        std::ssize(counts_of(keys)));
  const std::span<const int64_t> all(order);
  const auto at = [](int64_t position) { return static_cast<size_t>(position); };
  return {Selection(size, all.first(at(begin))), Selection(size, all.subspan(at(begin), at(end - begin)))};
}

}  // namespace

std::vector<std::string> split_names() {
  std::vector<std::string> names;
  for (const auto& [name, split] : kSplits) names.emplace_back(name);
  return names;
}

SplitBy split_named(const std::string& name) {
  for (const auto& [known, split] : kSplits)
    if (name == known) return split;
  throw user_error("samples cannot be divided by '{}'; there are {}", name, one_of(split_names()));
}

DividedSamples divide_samples(int64_t size, SplitBy by, const SplitKeys& keys, const HeldOutShare& share,
                              uint64_t seed) {
  const auto wanted = std::llround(share.fraction * static_cast<double>(size));
  const bool fraction = share.fraction > 0 && share.fraction < 1 && wanted >= 1 && wanted < size;
  if (share.folds == 0 && !fraction) {
    throw user_error(
        "Holding out {} of {} samples leaves one part empty; a fraction between 0 and 1 that leaves samples in both parts is needed",
        share.fraction, size);
  }
  if (share.folds > 0 &&
      (share.folds < 2 || share.folds > size || share.fold < 1 || share.fold > share.folds))
    throw user_error("There is no fold {} of {} of {} samples; each fold needs a sample", share.fold,
                     share.folds, size);
  if (by == SplitBy::time) return divide_by_time(keys, share, wanted);
  const SampleNumbers chosen = by == SplitBy::stratified ? stratified_samples(keys, share, wanted, seed)
                               : by == SplitBy::group    ? samples_of_groups(keys, share, wanted, seed)
                                                         : random_samples(size, share, wanted, seed);
  Selection held_out(size, chosen);
  Selection train = held_out.complement();
  return {std::move(train), std::move(held_out)};
}

}  // namespace telar
