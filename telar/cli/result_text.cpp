#include "telar/cli/result_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

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

/// Four digits that count, without an exponent: "0.01234", "1.234", "123456".
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

std::string figure_bar(const ResultRow& row, const Result& result) {
  const auto value_of = [&](const ResultRow& of) {
    const bench::Figure* figure = find_figure(of, result.drawn);
    return figure == nullptr ? 0 : figure->value.value_or(0);
  };
  double longest = 0;
  for (const ResultRow& other : result.rows) longest = std::max(longest, value_of(other));
  return value_of(row) > 0 ? bar(value_of(row) / longest) : "";
}

std::string rate_text(const Measured& measured) {
  if (measured.operations > 0) return scaled(measured.operations_per_second(), "FLOP/s");
  return measured.bytes > 0 ? scaled(measured.bytes_per_second(), "B/s") : "";
}

/// A column of the table, and what a row says in it.
struct Column {
  std::string name;
  std::function<std::string(const ResultRow&)> text;
};

/// The columns beside the settings in which any row says something.
std::vector<Column> columns_of(const Result& result) {
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
  for (const bench::Figure& figure : figure_columns(result)) {
    columns.push_back({figure.unit.empty() ? figure.name : fmt::format("{} {}", figure.name, figure.unit),
                       [name = figure.name](const ResultRow& row) { return figure_text(row, name); }});
  }
  columns.push_back({result.drawn, [&result](const ResultRow& row) { return figure_bar(row, result); }});
  std::erase_if(columns, [&](const Column& column) {
    return std::all_of(result.rows.begin(), result.rows.end(),
                       [&](const ResultRow& row) { return column.text(row).empty(); });
  });
  return columns;
}

}  // namespace

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

std::string result_text(const Result& result) {
  const std::vector<Column> columns = columns_of(result);
  std::vector<std::vector<std::string>> rows = {result.settings};
  for (const Column& column : columns) rows[0].push_back(column.name);
  std::string impossible;
  for (const ResultRow& row : result.rows) {
    rows.push_back(row.setting);
    if (!row.impossible.empty()) {
      rows.back().push_back("—");
      impossible += fmt::format("{}: not measured: {}.\n", fmt::join(row.setting, ", "), row.impossible);
      continue;
    }
    for (const Column& column : columns) rows.back().push_back(column.text(row));
  }
  std::string text = result.title + "\n\n" + table_text(rows, result.settings.size()) + "\n" + impossible;
  for (const std::string& remark : result.remarks) text += remark + "\n";
  if (!result.energy_source.empty())
    text += fmt::format("Energy of the whole machine: {}.\n", result.energy_source);
  if (bench::was_busy(result)) {
    text += fmt::format(
        "This machine was busy: others used {:.1f} processors on average, so these figures are in doubt. Run "
        "it again "
        "alone.\n",
        result.others);
  }
  return text;
}

}  // namespace telar::cli
