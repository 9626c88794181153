#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace telar {

/// The lines of a table as text, split into cells. A line ends with LF, CR LF or CR; blank ones do not count.
/// Cells may be quoted; the space around them is not part of them.
class CsvRows {
 public:
  /// `name` is the table's, for messages; it must live as long.
  CsvRows(char separator, const std::string& name) : separator_(separator), name_(name) {}

  void begin(std::string_view text);
  /// Advances to the next line that is not blank; false at the end. Throws Error (user) for a quotation mark
  /// that is not closed on its line.
  bool next();

  const std::string& name() const { return name_; }
  char separator() const { return separator_; }
  size_t line() const { return line_; }  ///< the number of the present line, from 1
  const std::vector<std::string_view>& cells() const { return cells_; }

 private:
  void split(std::string_view line);
  static bool is_plain(std::string_view line, size_t begin);
  size_t quotes_end(std::string_view line, size_t begin) const;
  static std::string_view content_of(std::string_view cell);

  std::string_view text_;
  size_t at_ = 0;       ///< where the next line begins; beyond the text after the last one
  size_t newline_ = 0;  ///< the first LF from there on, or the end
  char separator_;
  const std::string& name_;
  size_t line_ = 0;
  std::vector<std::string_view> cells_;
};

/// Reads the number of a cell. Returns what is wrong with it, to follow the place of the cell: " is empty; a
/// number is needed"; empty if nothing is.
std::string read_cell(std::string_view cell, double& value);

/// Reads it; false if anything is wrong with it.
bool read_number(std::string_view cell, double& value);

/// Whether the cell stands for a value that is missing: "", NA, N/A, NaN, null, none, ? and -, in any case.
bool is_gap(std::string_view cell);

/// A cell for messages.
std::string shown_cell(std::string_view cell);

}  // namespace telar
