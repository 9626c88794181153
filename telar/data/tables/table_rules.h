#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "telar/data/tables/table_words.h"

namespace telar {

/// What a column of a table is.
enum class ColumnKind : uint8_t {
  number,
  decimal_comma,  ///< numbers like 1.234,5
  thousands,      ///< numbers like 1,234.5
  boolean,        ///< yes and no; 1 and 0
  category,       ///< texts of which there are few, one-hot
  date,           ///< days since 1970; places in the year, week and, with times, day, as sine and cosine
  date_dmy,
  date_mdy,
  left_out
};
/// Their names, as in a job.
std::vector<std::string> column_kinds();
std::string name_of_kind(ColumnKind kind);
bool is_date(ColumnKind kind);
/// Whether each word is a value of the kind, which is no category.
bool all_are(ColumnKind kind, const ColumnWords& words);

/// How the cells of a column become features. A missing one becomes the mean of the training rows and, if
/// these have some, 1 in a further feature; of a category it is a category.
struct ColumnRule {
  std::string column;
  ColumnKind kind = ColumnKind::number;
  bool missing = false;            ///< there is a feature for it
  double mean = 0;                 ///< numbers, truth values and days: of the training rows
  bool time = false;               ///< dates
  std::vector<std::string> words;  ///< categories, the most frequent ones first; others are all zeros
  bool rare = false;               ///< all other texts are one more category; without it, they are all zeros

  size_t width() const;
  /// Names of the features: "city=Berlin", "day.year.sin".
  std::vector<std::string> names() const;
  /// As JSON on one line, and back. Throws Error (user).
  std::string str() const;
  static ColumnRule of(const std::string& text);
};

/// The cells of a column that a rule reads.
struct ColumnCells {
  std::span<const double> codes;  ///< of all rows and columns, row-major; see TableWords
  size_t columns = 0;
  size_t column = 0;
  const ColumnWords& words;
  double operator[](size_t row) const { return codes[row * columns + column]; }
  size_t rows() const { return codes.size() / columns; }
};

/// What is said of a column: its kind, missing cells, least, mean, greatest, and an example.
using ColumnLine = std::vector<std::string>;

/// `given`: by the job; empty: the cells of `rows`, those of the training, tell. Throws Error (user) for a
/// column that is not clear, with its `place` ("houses.csv, column 2 ('b')").
ColumnKind column_kind(const std::string& given, const ColumnCells& cells, std::span<const int64_t> rows,
                       const std::string& place);

/// `rows`: those of the training, which alone determine words and means. Throws Error (user) for a cell that
/// is not of the kind.
ColumnRule decide_rule(const std::string& column, ColumnKind kind, const ColumnCells& cells,
                       std::span<const int64_t> rows, const std::string& place);

ColumnLine described(const ColumnRule& rule, const ColumnCells& cells, std::span<const int64_t> rows);

/// Rows of texts as lines with columns of equal width.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

/// Writes the features of a cell, rule.width() of them. Throws Error (user) for a cell that the rule cannot
/// read.
class ColumnEncoder {
 public:
  ColumnEncoder(const ColumnRule& rule, const ColumnCells& cells, const std::string& place);
  void write(size_t row, double* features);
  /// Cells that are missing although none was in the training rows.
  int64_t unexpected() const { return unexpected_; }

 private:
  struct Read {
    double value = 0;
    double year = 0;
    int64_t category = -1;
  };
  int64_t category_of(const std::string& word) const;

  const ColumnRule& rule_;
  size_t width_;
  ColumnCells cells_;
  std::unordered_map<std::string, int64_t> categories_;
  std::vector<Read> of_words_;
  int64_t unexpected_ = 0;
  std::string place_;
};

}  // namespace telar
