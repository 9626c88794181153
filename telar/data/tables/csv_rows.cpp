#include "telar/data/tables/csv_rows.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "telar/comm/printable.h"
#include "telar/core/error.h"

namespace telar {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Whether a number that from_chars reports as out of range is just too close to 0; it then counts as 0.
bool is_tiny(std::string_view number) {
  const size_t end = std::min(number.find_first_of("eE"), number.size());
  const auto point = static_cast<double>(std::min(number.find('.'), end));
  const auto first = static_cast<double>(number.find_first_of("123456789"));
  std::string_view power = number.substr(std::min(end + 1, number.size()));
  if (power.starts_with('+')) power.remove_prefix(1);
  double exponent = 0;
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  return point - first + exponent < 0;
}

}  // namespace

void CsvRows::begin(std::string_view text) {
  text_ = text;
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);  // byte-order mark of spreadsheet programs
  at_ = 0;
  newline_ = std::min(text_.find('\n'), text_.size());
  line_ = 0;
}

bool CsvRows::next() {
  while (at_ < text_.size()) {
    if (newline_ < at_) newline_ = std::min(text_.find('\n', at_), text_.size());
    std::string_view line = text_.substr(at_, newline_ - at_);
    line = line.substr(0, line.find('\r'));
    at_ += line.size();
    at_ += text_.substr(at_).starts_with("\r\n") ? 2 : 1;
    ++line_;
    if (trimmed(line).empty()) continue;
    split(line);
    return true;
  }
  return false;
}

void CsvRows::split(std::string_view line) {
  cells_.clear();
  size_t begin = 0;
  while (true) {
    const size_t end = line.find(separator_, is_plain(line, begin) ? begin : quotes_end(line, begin));
    cells_.push_back(content_of(line.substr(begin, end - begin)));
    if (end == std::string_view::npos) return;
    begin = end + 1;
  }
}

/// Most cells begin with neither space nor a quotation mark.
bool CsvRows::is_plain(std::string_view line, size_t begin) {
  return begin < line.size() && line[begin] != ' ' && line[begin] != '"';
}

/// The closing quotation mark of the cell, if it is quoted; otherwise its beginning.
size_t CsvRows::quotes_end(std::string_view line, size_t begin) const {
  const size_t quote = separator_ == ' ' ? begin : line.find_first_not_of(' ', begin);
  if (quote >= line.size() || line[quote] != '"') return begin;
  const size_t closing = line.find('"', quote + 1);
  if (closing == std::string_view::npos) {
    throw user_error("{}, line {}, column {}: the quotation mark is not closed on this line", name_, line_,
                     cells_.size() + 1);
  }
  return closing;
}

/// Without the space around it, and without quotation marks.
std::string_view CsvRows::content_of(std::string_view cell) {
  cell = trimmed(cell);
  const bool quoted = cell.size() >= 2 && cell.front() == '"' && cell.back() == '"';
  return quoted ? trimmed(cell.substr(1, cell.size() - 2)) : cell;
}

std::string read_cell(std::string_view cell, double& value) {
  value = 0;
  if (cell.empty()) return " is empty; a number is needed";
  const std::string_view digits = cell.size() > 1 && cell[0] == '+' && cell[1] != '-' ? cell.substr(1) : cell;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size())
    return fmt::format(": '{}' is not a number", shown_cell(cell));
  if (error == std::errc::result_out_of_range && is_tiny(digits)) return {};
  const bool infinite = error == std::errc() && !std::isfinite(value);
  if (infinite)
    return fmt::format(": '{}' cannot be learned from; a finite number is needed", shown_cell(cell));
  if (error == std::errc::result_out_of_range || std::fabs(value) > std::numeric_limits<float>::max())
    return fmt::format(": '{}' is too large for an f32 number", shown_cell(cell));
  return {};
}

bool read_number(std::string_view cell, double& value) {
  const char* end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, value);
  if (error == std::errc() && stop == end) return std::fabs(value) <= std::numeric_limits<float>::max();
  const bool is_text = !cell.empty() && std::isalpha(static_cast<unsigned char>(cell[0])) != 0;
  return !is_text && read_cell(cell, value).empty();
}

bool is_gap(std::string_view cell) {
  constexpr std::array<std::string_view, 8> kGaps = {"", "na", "n/a", "nan", "null", "none", "?", "-"};
  std::string lower(cell.substr(0, 8));
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kGaps, lower) != kGaps.end();
}

std::string shown_cell(std::string_view cell) {
  constexpr size_t kLongest = 60;
  return printable(std::string(cell), kLongest);
}

}  // namespace telar
