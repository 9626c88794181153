#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/data/tables/csv.h"
#include "telar/data/tables/csv_rows.h"

namespace telar {

/// A table as messages name it.
struct NamedTable {
  const std::string& name;
  const std::vector<std::string>& columns;  ///< empty without a header
};

/// "column 2 ('b')", and "table.csv, line 3, column 2 ('b')".
std::string column_text(const NamedTable& table, size_t column);
std::string place_of(const NamedTable& table, size_t line, size_t column);
/// "'a', 'b' and 'c'".
std::string quoted_names(const std::vector<std::string>& names);

/// What the columns of a table are, by their numbers.
struct CsvColumns {
  size_t width = 0;                ///< number of columns
  std::vector<std::string> names;  ///< of all columns; empty without a header
  std::vector<size_t> features;    ///< in the order in which a model takes them
  std::vector<size_t> labels;      ///< the label's column, or those of the targets; to predict, maybe none
  std::vector<size_t> dropped;     ///< no features
  std::optional<size_t> split;     ///< the column of CsvOptions::split_column
  std::vector<std::string> notes;  ///< sentences on what has been taken for what, and left out

  bool is_label(size_t column) const;
};

/// `names`: of line 1; empty without a header. `rows` are at the first line of numbers. Throws Error (user)
/// for columns that the options name and the table has not, or twice; for one that is a feature and no
/// feature at once; for a table without features or label.
CsvColumns choose_columns(const CsvOptions& options, std::vector<std::string> names, const CsvRows& rows);

/// The label's column of a table of so many. Throws Error (user) if there is none, or no feature.
size_t label_column(const CsvOptions& options, const std::vector<std::string>& names, size_t columns,
                    const CsvRows& rows);

}  // namespace telar
