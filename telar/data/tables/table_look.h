#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "telar/data/tables/table_rules.h"

namespace telar {

/// What the cells of a column are, seen in all rows.
struct ColumnLook {
  std::string name;                  ///< without a header empty
  std::optional<ColumnKind> kind;    ///< none: it is not clear
  std::string problem;               ///< why it is not clear, as a sentence; else empty
  std::vector<ColumnKind> possible;  ///< kinds that all cells may be of, for one that is not clear
  int64_t missing = 0;               ///< cells
  int64_t different = 0;             ///< values
  std::vector<double> numbers;       ///< of the rows, if all cells are plain numbers; else empty
  std::vector<int64_t> counts;       ///< rows of each text or number, if there are at most 1,000
};

/// A table before anything is known of it.
struct TableLook {
  char separator = ',';
  bool header = true;
  bool clear_header = true;  ///< false: line 1 may be either
  int64_t rows = 0;          ///< with as many cells as the first one
  std::vector<ColumnLook> columns;
  std::vector<std::string> problems;  ///< of lines and the header, as sentences
};

/// Finds the separator, the header and what the columns are. All that is wrong is in the result, at once.
/// `name`: of the file, for messages. Throws Error (user) for text that is no table: no lines, one column.
TableLook look_at_table(std::string_view text, const std::string& name);

}  // namespace telar
