#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "telar/data/dataset.h"

namespace telar {

struct CsvOptions {
  bool header = true;   ///< whether line 1 contains column names
  std::string label{};  ///< column name, or number (0 is the first, -1 the last); empty: the last column
  char separator = ',';
  int64_t classes = 0;  ///< labels are integers 0 … classes-1; with 0, the label column is an f32 target
};

/// A dataset from a table of numbers: all columns except the label are features ([columns - 1] f32). Cells
/// may be quoted; space around a number is ignored. Throws Error (user) with line and column for a cell that
/// is empty, NaN, infinite or not a number; a line with a different number of cells; a label outside the
/// classes; an unknown label column; a table without lines.
DatasetPtr csv_from_text(std::string_view text, const CsvOptions& options, const std::string& name);

/// Lines that arrive one by one, each a table without a header. It keeps memory for the next line.
class CsvLine {
 public:
  /// `labelled`: false if no label is read, and a line may have `features` numbers and no label. `name`: of
  /// each line, for messages.
  CsvLine(const CsvOptions& options, bool labelled, int64_t features, const std::string& name);
  ~CsvLine();
  /// Takes a line; returns the number of its features. Throws Error (user) for several lines, or none.
  size_t take(std::string_view text);
  /// Writes the features of the line taken last, and its label: an i32 class or an f32 target. Throws Error
  /// (user) like csv_from_text().
  void read(std::span<float> features, std::span<std::byte> label) const;

 private:
  class Taken;
  std::unique_ptr<Taken> taken_;
};

/// The same as csv_from_text(), from a file.
DatasetPtr open_csv(const std::string& path, const CsvOptions& options);

}  // namespace telar
