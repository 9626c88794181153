#include "telar/data/tables/csv_header.h"

#include <algorithm>
#include <array>
#include <limits>

#include "telar/core/error.h"

namespace telar {

namespace {

/// Neither a number nor a name.
bool is_no_name(std::string_view cell) {
  constexpr std::array<std::string_view, 6> kInfinite = {"inf", "-inf", "Inf", "-Inf", "INF", "-INF"};
  return is_gap(cell) || std::ranges::find(kInfinite, cell) != kInfinite.end();
}

bool is_number(std::string_view cell) {
  double value = 0;
  return read_cell(cell, value).empty();
}

/// What a column has below line 1.
struct ColumnBelow {
  size_t texts = 0;
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -std::numeric_limits<double>::infinity();

  void take(std::string_view cell) {
    double value = 0;
    if (read_cell(cell, value).empty()) {
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    } else if (!is_no_name(cell)) {
      ++texts;
    }
  }

  /// Whether the number is further away than the column is wide.
  bool is_far(double value) const {
    return lowest <= highest && std::max(lowest - value, value - highest) > highest - lowest;
  }
};

/// Line 1 as texts, and the columns below it.
struct Start {
  std::vector<std::string> cells;
  std::vector<ColumnBelow> below;
  size_t rows = 0;
};

Start start_of(std::string_view text, char separator, const std::string& name) {
  constexpr size_t kMostRows = 1000;
  CsvRows rows(separator, name);
  rows.begin(text);
  Start start;
  if (!rows.next()) return start;
  start.cells.assign(rows.cells().begin(), rows.cells().end());
  start.below.resize(start.cells.size());
  for (; start.rows < kMostRows && rows.next(); ++start.rows)
    for (size_t i = 0; i < std::min(start.below.size(), rows.cells().size()); ++i)
      start.below[i].take(rows.cells()[i]);
  return start;
}

/// "'a', 'b', 'c', …": some of the cells.
std::string cells_text(const std::vector<std::string>& cells, const char* quote) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, cells.size()); ++i)
    text += fmt::format("{}{}{}{}", i == 0 ? "" : ", ", quote, shown_cell(cells[i]), quote);
  return text + (cells.size() > kShown ? ", …" : "");
}

Error may_be_either(const Start& start, const std::string& name) {
  return user_error(
      "{}: line 1 may contain the names of the columns ({}), or the first row ({}); say which: data.header: true or false",
      name, cells_text(start.cells, "'"), cells_text(start.cells, ""));
}

FirstLine a_row(const Start& start, const std::string& name) {
  return {false, fmt::format("{}: line 1 ({}) is taken for a row, so the columns have no names; data.header "
                             "(true or false) says what it is",
                             name, cells_text(start.cells, ""))};
}

FirstLine unusual_header(const Start& start, const std::string& name) {
  return {true,
          fmt::format("{}: line 1 ({}) is taken for the names of the columns, which have no such numbers; "
                      "data.header (true or false) says what it is",
                      name, cells_text(start.cells, "'"))};
}

/// Line 1 has numbers only.
FirstLine by_numbers(const Start& start, const std::string& name) {
  constexpr size_t kFewRows = 3;
  std::vector<double> values(start.cells.size());
  size_t far = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    read_cell(start.cells[i], values[i]);
    if (start.below[i].is_far(values[i])) ++far;
  }
  bool consecutive = values.size() >= 3 && (values[0] == 0 || values[0] == 1);
  for (size_t i = 1; i < values.size(); ++i) consecutive = consecutive && values[i] == values[i - 1] + 1;
  const bool enough = start.rows >= kFewRows;
  if (consecutive ? enough && far > 0 : enough && far == values.size()) return unusual_header(start, name);
  if (consecutive ? start.rows > 0 : enough && 2 * far > values.size()) throw may_be_either(start, name);
  return a_row(start, name);
}

/// The model has been trained on columns of these names.
FirstLine by_names(const Start& start, const std::string& name, const std::vector<std::string>& known) {
  const auto in_line = [&](const std::string& column) { return std::ranges::count(start.cells, column) > 0; };
  const bool some = std::ranges::any_of(
      known, [&](const std::string& column) { return in_line(column) && !is_number(column); });
  if (some || std::ranges::all_of(known, in_line) || std::ranges::none_of(start.cells, is_number)) return {};
  return std::ranges::all_of(start.cells, is_number) ? by_numbers(start, name) : a_row(start, name);
}

/// Line 1 has names and numbers.
FirstLine by_both(const Start& start, const std::string& name) {
  bool texts_below = true;
  bool all_far = true;
  for (size_t i = 0; i < start.cells.size(); ++i) {
    double value = 0;
    if (read_cell(start.cells[i], value).empty()) {
      all_far = all_far && start.below[i].is_far(value);
    } else if (!is_no_name(start.cells[i])) {
      texts_below = texts_below && start.below[i].texts > 0;
    }
  }
  if (texts_below) return a_row(start, name);
  if (all_far) return unusual_header(start, name);
  throw may_be_either(start, name);
}

}  // namespace

FirstLine first_line(std::string_view text, char separator, const std::string& name,
                     const std::vector<std::string>& known) {
  const Start start = start_of(text, separator, name);
  if (start.cells.empty()) return {};
  if (!known.empty()) return by_names(start, name, known);
  const auto numbers = static_cast<size_t>(std::ranges::count_if(start.cells, is_number));
  const auto gaps = static_cast<size_t>(std::ranges::count_if(start.cells, is_no_name));
  if (numbers + gaps == start.cells.size() && gaps > 0) return a_row(start, name);
  if (numbers == 0) return {};
  return numbers == start.cells.size() ? by_numbers(start, name) : by_both(start, name);
}

}  // namespace telar
