#include "telar/cli/result_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

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

std::vector<std::string> cells_of(const Measured& measured, bool energy) {
  const bench::Times& times = measured.times;
  std::vector<std::string> cells = {
      fmt::format("{:.3f}", times.median()),
      fmt::format("{:.3f}–{:.3f}", times.min(), times.max()),
      std::to_string(times.milliseconds.size()),
      scaled(measured.operations, "FLOP"),
      scaled(measured.bytes, "B"),
      scaled(measured.operations_per_second(), "FLOP/s"),
      measured.limit_ms > 0 ? fmt::format("{:.2f}{}", measured.of_limit(), measured.suspect ? " suspect" : "")
                            : "",
      measured.limit_ms > 0 ? bar(measured.of_limit()) : ""};
  if (energy) cells.push_back(measured.joules ? fmt::format("{:.3g}", *measured.joules) : "");
  return cells;
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
  const bool energy = !result.energy_source.empty();
  std::vector<std::vector<std::string>> rows = {result.settings};
  for (const char* name :
       {"median ms", "min–max", "times", "operations", "bytes", "rate", "of its limit", "0 ........ limit"})
    rows[0].push_back(name);
  if (energy) rows[0].push_back("J each");
  std::string impossible;
  for (const ResultRow& row : result.rows) {
    rows.push_back(row.setting);
    if (row.measured) {
      for (std::string& cell : cells_of(*row.measured, energy)) rows.back().push_back(std::move(cell));
    } else {
      rows.back().push_back("—");
      impossible += fmt::format("{}: not measured: {}.\n", fmt::join(row.setting, ", "), row.impossible);
    }
  }
  std::string text = result.title + "\n\n" + table_text(rows, result.settings.size()) + "\n" + impossible;
  for (const std::string& remark : result.remarks) text += remark + "\n";
  if (energy) text += fmt::format("Energy of the whole machine: {}.\n", result.energy_source);
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
