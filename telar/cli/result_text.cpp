#include "telar/cli/result_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "telar/cli/table.h"

namespace telar::cli {

namespace {

using bench::Measured;
using bench::Result;
using bench::ResultRow;

std::string bar(double part) {
  constexpr int kWidth = 20;
  const int filled = std::clamp(static_cast<int>(std::lround(part * kWidth)), 0, kWidth);
  std::string text;
  for (int i = 0; i < kWidth; ++i) text += i < filled ? '#' : '.';
  return text;
}

/// Four significant digits, without an exponent: "0.01234", "1.234", "123456".
std::string number_text(double number) {
  const double size = std::abs(number);
  const int before = size > 0 ? static_cast<int>(std::floor(std::log10(size))) + 1 : 1;
  return fmt::format("{:.{}f}", number, number == std::floor(number) ? 0 : std::clamp(4 - before, 0, 9));
}

std::string figure_text(const ResultRow& row, const std::string& name) {
  const bench::Figure* figure = find_figure(row, name);
  if (figure == nullptr) return "";
  return figure->value ? number_text(*figure->value) : "—";
}

using Rows = std::span<const ResultRow>;

std::string figure_bar(const ResultRow& row, Rows rows, const std::string& name) {
  const auto value_of = [&](const ResultRow& of) {
    const bench::Figure* figure = find_figure(of, name);
    return figure == nullptr ? 0 : figure->value.value_or(0);
  };
  double longest = 0;
  for (const ResultRow& other : rows) longest = std::max(longest, value_of(other));
  return value_of(row) > 0 ? bar(value_of(row) / longest) : "";
}

/// "1.23 GFLOP/s".
std::string scaled(double number, const std::string& unit) {
  constexpr std::array<const char*, 6> kPrefixes{"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  while (number >= 999.5 && prefix + 1 < kPrefixes.size()) {
    number /= 1000;
    ++prefix;
  }
  const int digits = number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}", number, prefix == 0 && number == std::floor(number) ? 0 : digits,
                     kPrefixes[prefix], unit);
}

std::string rate_text(const Measured& measured) {
  if (measured.operations > 0) return scaled(measured.operations_per_second(), "FLOP/s");
  return measured.bytes > 0 ? scaled(measured.bytes_per_second(), "B/s") : "";
}

/// A column of the table, and the text of a row in it.
struct Column {
  std::string name;
  std::function<std::string(const ResultRow&)> text;
};

/// The columns after the settings, without those that are empty in all rows.
std::vector<Column> columns_of(Rows rows, const std::string& drawn) {
  const auto measured = [](auto text) {
    return [text](const ResultRow& row) { return row.measured ? text(*row.measured) : std::string(); };
  };
  const auto limited = [](auto text) {
    return [text](const ResultRow& row) {
      return row.measured && row.measured->limit_ms > 0 ? text(*row.measured) : std::string();
    };
  };
  std::vector<Column> columns = {
      {"median ms", measured([](const Measured& m) { return number_text(m.times.median()); })},
      {"min–max", measured([](const Measured& m) {
         return number_text(m.times.min()) + "–" + number_text(m.times.max());
       })},
      {"times", measured([](const Measured& m) { return std::to_string(m.times.milliseconds.size()); })},
      {"operations",
       measured([](const Measured& m) { return m.operations > 0 ? scaled(m.operations, "FLOP") : ""; })},
      {"bytes", measured([](const Measured& m) { return m.bytes > 0 ? scaled(m.bytes, "B") : ""; })},
      {"rate", measured(rate_text)},
      {"of its limit", limited([](const Measured& m) {
         return fmt::format("{:.2f}{}", m.of_limit(), m.suspect ? " suspect" : "");
       })},
      {"0 ........ limit", limited([](const Measured& m) { return bar(m.of_limit()); })},
      {"J each",
       measured([](const Measured& m) { return m.joules ? fmt::format("{:.3g}", *m.joules) : ""; })}};
  for (const bench::Figure& figure : figure_columns(rows)) {
    columns.push_back({figure.unit.empty() ? figure.name : fmt::format("{} {}", figure.name, figure.unit),
                       [name = figure.name](const ResultRow& row) { return figure_text(row, name); }});
  }
  columns.push_back({drawn, [rows, drawn](const ResultRow& row) { return figure_bar(row, rows, drawn); }});
  std::erase_if(columns, [&](const Column& column) {
    return std::all_of(rows.begin(), rows.end(),
                       [&](const ResultRow& row) { return column.text(row).empty(); });
  });
  return columns;
}

/// True if the row belongs in one table with the rows before it: they have a column of figures in common, or
/// neither has figures. A row that could not be measured fits any table.
bool belongs_to(Rows before, const ResultRow& row) {
  const auto impossible = [](const ResultRow& one) { return !one.impossible.empty(); };
  if (impossible(row) || std::all_of(before.begin(), before.end(), impossible)) return true;
  const std::vector<bench::Figure> columns = figure_columns(before);
  if (columns.empty() || row.figures.empty()) return columns.empty() == row.figures.empty();
  return std::any_of(columns.begin(), columns.end(),
                     [&](const bench::Figure& column) { return find_figure(row, column.name) != nullptr; });
}

/// A table of all columns; if its lines would be wider than a terminal, several tables of some columns each.
std::string table_of(Rows rows, const Result& result) {
  constexpr size_t kWidth = 140;
  constexpr size_t kBetween = 2;
  const std::vector<Column> columns = columns_of(rows, result.drawn);
  std::vector<std::vector<std::string>> settings = {result.settings};
  for (const ResultRow& row : rows) settings.push_back(row.setting);
  size_t settings_width = 0;
  for (size_t s = 0; s < result.settings.size(); ++s) {
    size_t width = 0;
    for (const auto& line : settings) width = std::max(width, text_width(line[s]));
    settings_width += width + kBetween;
  }
  std::string text;
  std::vector<std::vector<std::string>> table = settings;
  size_t used = settings_width;
  const auto print = [&] {
    text += table_text(table, result.settings.size()) + "\n";
    table = settings;
    used = settings_width;
  };
  for (const Column& column : columns) {
    std::vector<std::string> cells = {column.name};
    for (const ResultRow& row : rows)
      cells.push_back(row.impossible.empty() ? column.text(row) : &column == columns.data() ? "—" : "");
    size_t width = 0;
    for (const std::string& cell : cells) width = std::max(width, text_width(cell));
    if (used > settings_width && used + width > kWidth) print();
    used += width + kBetween;
    for (size_t line = 0; line < table.size(); ++line) table[line].push_back(cells[line]);
  }
  print();
  return text;
}

}  // namespace

std::string result_text(const Result& result) {
  std::string text = result.title + "\n\n";
  const Rows rows = result.rows;
  for (size_t begin = 0, end = 0; end < rows.size(); begin = end) {
    while (end < rows.size() && belongs_to(rows.subspan(begin, end - begin), rows[end])) ++end;
    text += table_of(rows.subspan(begin, end - begin), result);
  }
  for (const ResultRow& row : rows) {
    if (!row.impossible.empty())
      text += fmt::format("{}: not measured: {}.\n", fmt::join(row.setting, ", "), row.impossible);
  }
  for (const std::string& remark : result.remarks) text += remark + "\n";
  if (!result.energy_source.empty())
    text += fmt::format("Energy was read from {}; it includes what other processes used.\n",
                        result.energy_source);
  if (bench::was_busy(result)) {
    text += fmt::format(
        "This machine was busy: other processes used {:.1f} processors on average, so these figures are unreliable. Run the experiment again when nothing else runs.\n",
        result.others);
  }
  return text;
}

}  // namespace telar::cli
