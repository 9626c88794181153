#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telar/data/tables/csv_columns.h"
#include "telar/data/tables/table_words.h"

namespace telar {

/// read_cell(), for a label of `classes`; 0: any number.
std::string read_value(std::string_view cell, int64_t classes, double& value);

/// What the labels of a table are.
struct CsvLabels {
  int64_t classes = 0;                        ///< 0: numbers to learn
  std::vector<std::string> class_names = {};  ///< of labels that are texts
  std::string note = {};                      ///< a sentence on what they are taken for; may be empty
};

/// `labels`: of each row, those of `columns`, at least one; texts, which are codes of `words`, become the
/// numbers of their classes. `words`: null if all cells are numbers. Throws Error (user) for labels that are
/// missing, no classes that the options say, or neither numbers nor names.
CsvLabels read_labels(const CsvOptions& options, const NamedTable& table, const std::vector<size_t>& columns,
                      const TableWords* words, std::vector<double>& labels);

}  // namespace telar
