#include "telar/data/texts/word_texts.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/data/files.h"
#include "telar/data/texts/labelled_texts.h"
#include "telar/data/texts/words.h"

namespace telar {

std::vector<int64_t> NumberedTexts::lengths() const {
  std::vector<int64_t> lengths;
  for (const auto& text : texts) lengths.push_back(std::ssize(text));
  return lengths;
}

void NumberedTexts::add(std::string_view text, const std::string& place, bool is_file) {
  std::vector<int32_t>& numbers = texts.emplace_back();
  int64_t line = 1;
  for (const std::string_view word : words_of(text)) {
    if (word == "\n") ++line;
    if (word == kUnknownWord && ++no_utf8 == 1)
      first_no_utf8 = is_file ? fmt::format("{}, line {}", place, line) : place;
    const auto [found, added] = known_.try_emplace(std::string(word), static_cast<int32_t>(known_.size()));
    if (added) words.emplace_back(word);
    numbers.push_back(found->second);
  }
}

std::string NumberedTexts::no_utf8_note(const std::string& path) const {
  return fmt::format(
      "{}: {} words are no UTF-8 and therefore unknown, the first in {}; convert the texts, as with iconv -f LATIN1 -t UTF-8",
      path, no_utf8, first_no_utf8);
}

NumberedTexts numbered_texts(const std::vector<TextFile>& files) {
  NumberedTexts numbered;
  for (const TextFile& file : files) {
    const Bytes bytes = read_listed_file(file.path);
    const std::string_view contents(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    numbered.add(plain_text(contents, file.path), file.path, true);
  }
  return numbered;
}

std::vector<std::string> frequent_words(const std::vector<std::string>& words,
                                        const std::vector<int64_t>& counts, int64_t most) {
  std::vector<size_t> order;
  for (size_t word = 0; word < counts.size(); ++word)
    if (counts[word] > 0 && words[word] != kUnknownWord) order.push_back(word);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : words[a] < words[b];
  });
  std::vector<std::string> frequent{std::string(kUnknownWord)};
  for (const size_t word : order)
    if (std::ssize(frequent) < most) frequent.push_back(words[word]);
  return frequent;
}

std::vector<std::string> frequent_words(const NumberedTexts& texts, const WindowPlaces& places,
                                        const std::vector<int64_t>& windows, int64_t most) {
  std::vector<int64_t> counts(texts.words.size());
  for (const int64_t window : windows) {
    const WindowPlaces::Place place = places.at(window);
    const auto count = static_cast<size_t>(places.options().length);
    for (const int32_t word :
         std::span(texts.texts[place.text]).subspan(static_cast<size_t>(place.begin), count))
      ++counts[static_cast<size_t>(word)];
  }
  return frequent_words(texts.words, counts, most);
}

std::vector<std::vector<int32_t>> with_tokens(NumberedTexts texts,
                                              const std::vector<std::string>& vocabulary) {
  const Vocabulary known(vocabulary);
  std::vector<int32_t> tokens;
  for (const std::string& word : texts.words) tokens.push_back(known.token_of(word));
  for (std::vector<int32_t>& text : texts.texts)
    for (int32_t& word : text) word = tokens[static_cast<size_t>(word)];
  return std::move(texts.texts);
}

}  // namespace telar
