#include "telar/data/texts/word_texts.h"

#include <algorithm>
#include <unordered_map>

#include "telar/core/error.h"
#include "telar/data/files.h"
#include "telar/data/texts/words.h"

namespace telar {

std::vector<int64_t> NumberedTexts::lengths() const {
  std::vector<int64_t> lengths;
  for (const auto& text : texts) lengths.push_back(std::ssize(text));
  return lengths;
}

NumberedTexts numbered_texts(const std::vector<TextFile>& files) {
  NumberedTexts numbered;
  std::unordered_map<std::string, int32_t> known;
  for (const TextFile& file : files) {
    const Bytes bytes = read_listed_file(file.path);
    std::vector<int32_t>& text = numbered.texts.emplace_back();
    for (const std::string_view word :
         words_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
      const auto [found, added] = known.try_emplace(std::string(word), static_cast<int32_t>(known.size()));
      if (added) numbered.words.emplace_back(word);
      text.push_back(found->second);
    }
  }
  return numbered;
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
  std::vector<size_t> order;
  for (size_t word = 0; word < counts.size(); ++word)
    if (counts[word] > 0 && texts.words[word] != kUnknownWord) order.push_back(word);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : texts.words[a] < texts.words[b];
  });
  std::vector<std::string> words{std::string(kUnknownWord)};
  for (const size_t word : order)
    if (std::ssize(words) < most) words.push_back(texts.words[word]);
  return words;
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
