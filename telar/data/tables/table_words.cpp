#include "telar/data/tables/table_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>

#include "telar/core/utf8.h"
#include "telar/data/tables/csv_rows.h"

namespace telar {

namespace {

constexpr uint64_t kQuietNan = 0x7FF8000000000000;
constexpr uint64_t kPayload = 0x0007FFFFFFFFFFFF;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return c < 0x80 ? std::tolower(c) : c; });
  return lower;
}

std::string as_utf8(std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const size_t bytes = utf8_character(rest);
    if (bytes > 0) {
      rest.remove_prefix(bytes);
      continue;
    }
    std::string converted;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80) {
        converted += c;
      } else {
        converted += static_cast<char>(0xC0U | (byte >> 6U));
        converted += static_cast<char>(0x80U | (byte & 0x3FU));
      }
    }
    return converted;
  }
  return std::string(text);
}

/// Takes a whole number of 1 to `most` digits from the front.
std::optional<int> take_number(std::string_view& text, size_t most) {
  size_t digits = 0;
  while (digits < std::min(most, text.size()) && is_digit(text[digits])) ++digits;
  if (digits == 0) return std::nullopt;
  int number = 0;
  std::from_chars(text.data(), text.data() + digits, number);
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

/// The fraction of the day of "10:30", "10:30:15" or "10:30:15.5", with a Z or without; none for others.
std::optional<double> time_of(std::string_view text) {
  const auto hours = take_number(text, 2);
  if (!hours || *hours > 23 || !take(text, ':')) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  double seconds = 0;
  if (take(text, ':')) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || !(seconds >= 0 && seconds < 61)) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  take(text, 'Z');
  if (!text.empty()) return std::nullopt;
  return (*hours * 3600 + *minutes * 60 + seconds) / 86400;
}

/// Groups of three digits after the first of up to three; empty if the text is not so.
std::string without_groups(std::string_view text, char between) {
  std::string digits;
  size_t run = 0;
  bool grouped = false;
  for (const char c : text) {
    if (c == between) {
      if (run == 0 || run > 3 || (grouped && run != 3)) return "";
      grouped = true;
      run = 0;
    } else if (!is_digit(c)) {
      return "";
    } else {
      digits += c;
      ++run;
    }
  }
  return grouped && run != 3 ? "" : digits;
}

}  // namespace

double TableWords::code(size_t column, std::string_view cell, size_t line) {
  ColumnWords& of = columns_[column];
  if (is_gap(cell)) {
    if (of.missing++ == 0) of.first_missing = line;
    return std::bit_cast<double>(kQuietNan);
  }
  ++of.texts;
  const auto [found, added] = numbers_[column].try_emplace(as_utf8(cell), of.words.size());
  if (added) {
    of.words.push_back(found->first);
    of.lines.push_back(line);
  }
  return std::bit_cast<double>(kQuietNan | (found->second + 1));
}

std::optional<size_t> TableWords::word_of(double code) {
  const uint64_t payload = std::bit_cast<uint64_t>(code) & kPayload;
  if (!std::isnan(code) || payload == 0) return std::nullopt;
  return payload - 1;
}

bool TableWords::is_missing(double code) { return std::isnan(code) && !word_of(code); }

bool is_padded(std::string_view cell) {
  return cell.size() > 1 && cell[0] == '0' && std::ranges::all_of(cell, is_digit);
}

std::string word_of_number(double number) { return fmt::format("{}", number); }

std::optional<double> number_with(Commas commas, std::string_view word) {
  const char decimal = commas == Commas::decimal ? ',' : '.';
  const char between = commas == Commas::decimal ? '.' : ',';
  std::string_view rest = word;
  const bool negative = take(rest, '-');
  const size_t point = rest.find(decimal);
  std::string digits = without_groups(rest.substr(0, point), between);
  if (digits.empty()) return std::nullopt;
  if (point != std::string_view::npos) {
    const std::string_view fraction = rest.substr(point + 1);
    if (fraction.empty() || !std::ranges::all_of(fraction, is_digit)) return std::nullopt;
    digits += '.';
    digits += fraction;
  }
  double value = 0;
  if (!read_cell(digits, value).empty()) return std::nullopt;
  return negative ? -value : value;
}

std::string text_of(double code, const ColumnWords& words) {
  const auto word = TableWords::word_of(code);
  return word ? words.words[*word] : word_of_number(code);
}

std::optional<DateValue> date_of(DateOrder order, std::string_view word) {
  const size_t space = word.find_first_of(" T");
  std::string_view date = word.substr(0, space);
  std::array<std::string_view, 3> parts;
  const size_t first = date.find_first_of("-./");
  if (first == std::string_view::npos) return std::nullopt;
  const char between = date[first];
  const size_t second = date.find(between, first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  parts = {date.substr(0, first), date.substr(first + 1, second - first - 1), date.substr(second + 1)};
  const size_t year_at = order == DateOrder::ymd ? 0 : 2;
  std::array<int, 3> numbers{};
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t most = i == year_at ? 4 : 2;
    if (i == year_at && parts[i].size() != 4) return std::nullopt;
    const auto number = take_number(parts[i], most);
    if (!number || !parts[i].empty()) return std::nullopt;
    numbers[i] = *number;
  }
  if (between == '.' && order == DateOrder::mdy) return std::nullopt;
  const int month = order == DateOrder::mdy ? numbers[0] : numbers[1];
  const int day = order == DateOrder::ymd ? numbers[2] : order == DateOrder::dmy ? numbers[0] : numbers[1];
  using namespace std::chrono;
  const year_month_day found{year(numbers[year_at]), std::chrono::month(static_cast<unsigned>(month)),
                             std::chrono::day(static_cast<unsigned>(day))};
  if (!found.ok()) return std::nullopt;
  DateValue value;
  const sys_days at = found;
  value.days = static_cast<double>(at.time_since_epoch().count());
  if (space != std::string_view::npos) {
    const auto time = time_of(word.substr(space + 1));
    if (!time) return std::nullopt;
    value.days += *time;
    value.time = true;
  }
  const sys_days begin = found.year() / January / 1;
  const sys_days end = (found.year() + years(1)) / January / 1;
  value.year = (value.days - static_cast<double>(begin.time_since_epoch().count())) /
               static_cast<double>((end - begin).count());
  return value;
}

std::optional<bool> truth_of(std::string_view word) {
  constexpr std::array<std::string_view, 5> kTrue = {"yes", "true", "y", "t", "on"};
  constexpr std::array<std::string_view, 5> kFalse = {"no", "false", "n", "f", "off"};
  const std::string lower = lower_case(word.substr(0, 6));
  if (std::ranges::find(kTrue, lower) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, lower) != kFalse.end()) return false;
  return std::nullopt;
}

}  // namespace telar
