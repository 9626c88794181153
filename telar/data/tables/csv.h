#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telar/data/dataset.h"
#include "telar/data/division.h"
#include "telar/data/tables/csv_header.h"

namespace telar {

/// What a table is read for.
enum class CsvUse : uint8_t {
  train,    ///< it determines the columns
  test,     ///< the columns are those of a model
  predict,  ///< the same, and there may be no label
};

struct CsvOptions {
  CsvHeader header = CsvHeader::automatic;  ///< whether line 1 contains column names
  std::string label{};  ///< column name, or number (0 is the first, -1 the last); empty: the last column
  /// Names of several columns that together are the label, each a number; in the place of `label`.
  std::vector<std::string> targets{};
  char separator = ',';
  int64_t classes = 0;  ///< labels are integers 0 … classes-1; with 0, the label column is an f32 target
  std::vector<std::string> columns{};  ///< names of the features, in their order; empty: all but the label
  CsvUse use = CsvUse::train;
  std::vector<std::string> drop{};   ///< names of columns that are no features; of a table to predict, kept
  std::vector<std::string> kinds{};  ///< "zip: category": of columns, given by the job
  std::vector<std::string> class_names{};  ///< the labels that are texts, by class; empty: they are decided
  std::vector<std::string> encoding{};  ///< how cells become features, as decided before (ColumnRule::str())
  /// Of a table that is trained on and may have texts, dates and missing cells: the rows of the training
  /// among so many, on which the encoding is decided. Absent: all cells are numbers, unless there is an
  /// encoding.
  std::function<std::vector<int64_t>(int64_t rows, const SplitKeys& keys)> training_rows{};
  SplitBy split = SplitBy::random;  ///< of a table with `training_rows`: how it is divided
  /// Name of the column with groups, times or parts; no feature, except times. Empty: the order of the rows
  /// is that of their times.
  std::string split_column{};
};

/// CsvOptions::classes: as many as the labels of the table have.
inline constexpr int64_t kCountedClasses = -1;

/// The number of classes that labels which are numbers have, if they are whole, from 0 on, and few; 0: they
/// are numbers to learn.
int64_t classes_in(std::span<const double> labels);

struct CsvTable {
  DatasetPtr samples;                 ///< [columns] wide features; to predict, with the label 0
  std::vector<std::string> columns;   ///< names of the features; empty without a header
  std::string label;                  ///< name of the label; empty without a header, or if it has no name
  std::vector<std::string> notes;     ///< sentences on what has been taken for what, and left out
  std::vector<std::string> encoding;  ///< that was decided; empty: all cells are numbers
  std::vector<std::vector<std::string>> described;  ///< of that, a table with a line for each column
  int64_t classes = 0;
  SplitKeys keys;  ///< of each row, for CsvOptions::split
  /// Of a table to predict, cells that belong to no feature, by column: CsvOptions::drop.
  std::vector<std::pair<std::string, std::vector<std::string>>> kept;
};

/// Reads a table, of numbers unless the options say how its texts, dates and missing cells become numbers.
/// Columns are found by name, in any order, if `options.columns` and the table have
/// names; otherwise by position. Cells may be quoted; space around a number is ignored. Throws Error (user)
/// with all columns at fault for cells that are empty, NaN, infinite, not a number, or a label outside the
/// classes; for a line with a different number of cells; for columns that are missing, or two of the same
/// name; for an unknown label column; for a table without lines.
CsvTable csv_from_text(std::string_view text, const CsvOptions& options, const std::string& name);

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
  void read(std::span<double> features, std::span<std::byte> label) const;

 private:
  class Taken;
  std::unique_ptr<Taken> taken_;
};

/// The same as csv_from_text(), from a file, which may be compressed by gzip.
CsvTable open_csv(const std::string& path, const CsvOptions& options);

}  // namespace telar
