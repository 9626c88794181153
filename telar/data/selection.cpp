#include "telar/data/selection.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "telar/core/error.h"

namespace telar {

namespace {

constexpr size_t kBits = 64;        // in a word
constexpr size_t kWordsABlock = 8;  // so that a block is a cache line

std::vector<uint64_t> words_of(int64_t size, std::span<const int64_t> numbers) {
  std::vector<uint64_t> words((static_cast<size_t>(size) + kBits - 1) / kBits);
  for (const int64_t number : numbers) {
    if (number < 0 || number >= size) throw user_error("There is no sample {}; there are {}", number, size);
    words[static_cast<size_t>(number) / kBits] |= uint64_t{1} << static_cast<size_t>(number) % kBits;
  }
  return words;
}

/// The place of the bit that has `rank` ones below it.
size_t place_of(uint64_t word, int64_t rank) {
  for (; rank > 0; --rank) word &= word - 1;
  return static_cast<size_t>(std::countr_zero(word));
}

}  // namespace

Selection::Selection(int64_t size, std::span<const int64_t> numbers)
    : Selection(size, words_of(size, numbers)) {}

Selection::Selection(int64_t size, std::vector<uint64_t> words) : size_(size), words_(std::move(words)) {
  int64_t count = 0;
  for (size_t word = 0; word < words_.size(); ++word) {
    if (word % kWordsABlock == 0) before_.push_back(count);
    count += std::popcount(words_[word]);
  }
  before_.push_back(count);
}

Selection Selection::complement() const {
  std::vector<uint64_t> words = words_;
  for (uint64_t& word : words) word = ~word;
  if (const size_t used = static_cast<size_t>(size_) % kBits; used > 0)
    words.back() &= (uint64_t{1} << used) - 1;
  return {size_, std::move(words)};
}

Selection Selection::at(const Selection& positions) const {
  std::vector<uint64_t> words(words_.size());
  size_t position = 0;
  for (size_t word = 0; word < words.size(); ++word) {
    for (uint64_t left = words_[word]; left != 0; left &= left - 1, ++position) {
      const bool chosen = (positions.words_[position / kBits] >> position % kBits & 1U) != 0;
      if (chosen) words[word] |= left & -left;
    }
  }
  return {size_, std::move(words)};
}

int64_t Selection::operator[](int64_t position) const {
  const auto block = std::upper_bound(before_.begin(), before_.end(), position) - before_.begin() - 1;
  int64_t rank = position - before_[static_cast<size_t>(block)];
  size_t word = static_cast<size_t>(block) * kWordsABlock;
  for (int64_t ones = std::popcount(words_[word]); rank >= ones; ones = std::popcount(words_[word])) {
    rank -= ones;
    ++word;
  }
  return static_cast<int64_t>(word * kBits + place_of(words_[word], rank));
}

}  // namespace telar
