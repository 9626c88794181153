#include "telar/data/tables/table_split.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/tables/csv_rows.h"

namespace telar {

namespace {

SplitKeys groups_of(const ColumnCells& cells) {
  std::map<std::string, int64_t> numbers;
  SplitKeys keys;
  for (size_t row = 0; row < cells.rows(); ++row)
    keys.push_back(numbers.try_emplace(text_of(cells[row], cells.words), std::ssize(numbers)).first->second);
  return keys;
}

SplitKeys parts_of(const ColumnCells& cells, const std::string& place) {
  static const std::map<std::string, int64_t> kParts = {
      {"train", kTrainingPart},   {"training", kTrainingPart}, {"validation", kValidationPart},
      {"valid", kValidationPart}, {"val", kValidationPart},    {"dev", kValidationPart},
      {"test", kTestPart},        {"testing", kTestPart}};
  SplitKeys keys;
  for (size_t row = 0; row < cells.rows(); ++row) {
    const std::string text = text_of(cells[row], cells.words);
    std::string name = text;
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    const auto part = kParts.find(name);
    if (part == kParts.end())
      throw user_error("{}, row {}: '{}' is no part; train, validation and test are", place, row + 1,
                       shown_cell(text));
    keys.push_back(part->second);
  }
  return keys;
}

SplitKeys times_of(const std::string& given, const ColumnCells& cells, const std::string& place) {
  std::vector<int64_t> rows(cells.rows());
  std::iota(rows.begin(), rows.end(), int64_t{0});
  const ColumnKind kind = column_kind(given, cells, rows, place);
  if (kind == ColumnKind::category || kind == ColumnKind::boolean || kind == ColumnKind::left_out)
    throw user_error(
        "{}: data.split is time, but the cells are neither numbers nor dates that are understood; data.kinds may say what they are",
        place);
  const ColumnRule rule{.column = "", .kind = kind};
  ColumnEncoder encoder(rule, cells, place);
  std::vector<double> features(rule.width());
  std::vector<double> times;
  for (size_t row = 0; row < cells.rows(); ++row) {
    encoder.write(row, features.data());
    times.push_back(features[0]);
  }
  std::vector<double> sorted = times;
  std::ranges::sort(sorted);
  SplitKeys keys;
  for (const double time : times) keys.push_back(std::ranges::lower_bound(sorted, time) - sorted.begin());
  return keys;
}

}  // namespace

SplitKeys split_keys_of(SplitBy by, const std::string& kind, const ColumnCells& cells,
                        const std::string& place) {
  if (cells.words.missing > 0)
    throw user_error("{}, line {}: is missing; by data.split_column each row belongs to a part", place,
                     cells.words.first_missing);
  if (by == SplitBy::group) return groups_of(cells);
  return by == SplitBy::time ? times_of(kind, cells, place) : parts_of(cells, place);
}

}  // namespace telar
