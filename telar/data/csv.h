#pragma once

#include <string>
#include <string_view>

#include "telar/data/dataset.h"

namespace telar {

struct CsvOptions {
  bool header = true;   ///< whether line 1 holds names
  std::string label{};  ///< column by name, or by number (0 is the first, -1 the last); empty: the last
  char separator = ',';
  int64_t classes = 0;  ///< labels are whole numbers 0 … classes-1; 0: the label column is an f32 target
};

/// A dataset from a table of numbers: all columns but one are features ([columns - 1] f32). Cells may be
/// quoted; space around a number is ignored. Throws Error (user) with line and column: a cell that is empty,
/// NaN, infinite or no number; a line with another number of cells; a label outside the classes; an unknown
/// label column; no lines at all.
DatasetPtr csv_from_text(std::string_view text, const CsvOptions& options, const std::string& name);

/// The same from a file.
DatasetPtr open_csv(const std::string& path, const CsvOptions& options);

}  // namespace telar
