#include "telar/core/suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace telar {

namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// "learning_rate" as {"learning", "rate"}, in lower case.
std::vector<std::string> parts_of(std::string_view word) {
  std::vector<std::string> parts(1);
  for (const char c : word) {
    if (c == '_' || c == '-' || c == ' ') {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  std::erase(parts, "");
  std::sort(parts.begin(), parts.end());
  return parts;
}

/// Whether one word has all parts of the other.
bool share_parts(const std::vector<std::string>& parts, const std::vector<std::string>& others) {
  const auto has = [](const auto& all, const auto& some) {
    return !some.empty() && std::includes(all.begin(), all.end(), some.begin(), some.end());
  };
  return has(parts, others) || has(others, parts);
}

/// Whether one word begins with the other, of at least 3 letters.
bool begins_alike(std::string_view a, std::string_view b) {
  const auto& [shorter, longer] = std::minmax(a, b, [](auto x, auto y) { return x.size() < y.size(); });
  return shorter.size() >= 3 && longer.starts_with(shorter);
}

std::string initials_of(std::string_view word) {
  std::string initials;
  char before = '_';
  for (const char c : word) {
    if (before == '_' || before == '-') initials += c;
    before = c;
  }
  return initials;
}

/// How well a candidate explains a word that somebody wrote, best first. Words of one family ("batch_size",
/// "batch") come before words that only look alike ("batch_per").
enum class Likeness : uint8_t { one_letter, initials, same_parts, shared_parts, prefix, alike, none };

Likeness likeness(std::string_view word, std::string_view candidate, size_t distance) {
  if (distance <= 1 && word.size() > 2) return Likeness::one_letter;
  if (word.size() > 1 && word == initials_of(candidate)) return Likeness::initials;
  const auto parts = parts_of(word);
  const auto others = parts_of(candidate);
  if (parts == others) return Likeness::same_parts;
  if (share_parts(parts, others)) return Likeness::shared_parts;
  if (begins_alike(word, candidate)) return Likeness::prefix;
  const bool alike = distance < word.size() && distance <= std::max<size_t>(2, word.size() / 2);
  return alike ? Likeness::alike : Likeness::none;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::pair best_rank(Likeness::none, size_t{0});
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    const std::pair rank(likeness(word, candidate, distance), distance);
    if (rank < best_rank) {
      best_rank = rank;
      best = candidate;
    }
  }
  return best;
}

std::string one_of(const std::vector<std::string>& candidates) {
  std::string text;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i > 0) text += i + 1 == candidates.size() ? " or " : ", ";
    text += candidates[i];
  }
  return text;
}

}  // namespace telar
