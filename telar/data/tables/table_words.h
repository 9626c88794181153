#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace telar {

/// The texts of a column, each once.
struct ColumnWords {
  std::vector<std::string> words;  ///< UTF-8: other bytes are taken for Latin-1
  std::vector<size_t> lines;       ///< of the file, where each word is first
  int64_t texts = 0;               ///< cells with a text
  int64_t missing = 0;             ///< cells without a value: empty, NA, NaN, null, none, ?, -
  size_t first_missing = 0;        ///< line
};

/// The cells of a table that may hold more than numbers. A cell becomes a double: its number, or a NaN that
/// stands for a missing value or for a word of its column.
class TableWords {
 public:
  explicit TableWords(size_t columns) : columns_(columns), numbers_(columns) {}

  /// For a cell that is not a number, or is one like 007.
  double code(size_t column, std::string_view cell, size_t line);
  const ColumnWords& of(size_t column) const { return columns_[column]; }

  /// The number of the word; none for a number and a missing value.
  static std::optional<size_t> word_of(double code);
  static bool is_missing(double code);

 private:
  std::vector<ColumnWords> columns_;
  std::vector<std::unordered_map<std::string, size_t>> numbers_;  ///< of the words
};

/// Whether the cell is a number of digits that begins with a 0, which a code has: 007, but not 0 or 0.07.
bool is_padded(std::string_view cell);

/// A number as a word: 3, 2.5.
std::string word_of_number(double number);
/// The text of a cell that is not missing, by its code.
std::string text_of(double code, const ColumnWords& words);

/// Decimal commas, 1.234,5, or commas between thousands, 1,234.5.
enum class Commas : uint8_t { decimal, thousands };
std::optional<double> number_with(Commas commas, std::string_view word);

/// The order of day, month and year: 2026-11-27, 27.11.2026, 11/27/2026.
enum class DateOrder : uint8_t { ymd, dmy, mdy };
struct DateValue {
  double days = 0;  ///< since 1970-01-01, with the time of the day
  double year = 0;  ///< the fraction of the year that has passed
  bool time = false;
};
/// A date, with or without a time (10:30, 10:30:15). It has no zone, or Z.
std::optional<DateValue> date_of(DateOrder order, std::string_view word);

/// yes, true, y, t, on → true, their opposites → false, in any case.
std::optional<bool> truth_of(std::string_view word);

}  // namespace telar
