#include "telar/data/tables/table_look.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "telar/core/error.h"
#include "telar/data/tables/csv_header.h"
#include "telar/data/tables/csv_rows.h"

namespace telar {

namespace {

/// Of the separators, the one that divides most of the first lines into as many cells as line 1, and into
/// most.
char separator_of(std::string_view text, const std::string& name) {
  constexpr int64_t kLines = 20;
  std::pair<size_t, size_t> most = {0, 0};  // lines, cells
  char best = ',';
  for (const char separator : {',', ';', '\t', ' '}) {
    CsvRows rows(separator, name);
    rows.begin(text);
    size_t width = 0;
    size_t alike = 0;
    try {
      for (int64_t line = 0; line < kLines && rows.next(); ++line) {
        if (line == 0) width = rows.cells().size();
        if (rows.cells().size() == width) ++alike;
      }
    } catch (const Error&) {
      continue;  // a quotation mark that this separator leaves open
    }
    if (width < 2 || std::pair(alike, width) <= most) continue;
    most = {alike, width};
    best = separator;
  }
  if (text.empty()) throw user_error("{}: is empty; features and a label are needed", name);
  if (most.first == 0)
    throw user_error(
        "{}: has a single column, by commas, semicolons, tabs and spaces; features and a label are needed",
        name);
  return best;
}

class Looking {
 public:
  Looking(std::string_view text, const std::string& name)
      : name_(name), rows_(separator_of(text, name), name) {
    look_.separator = rows_.separator();
    read_header(text);
    rows_.begin(text);
    read_rows();
  }

  TableLook run() {
    for (size_t column = 0; column < width_; ++column) look_.columns.push_back(look_at(column));
    return std::move(look_);
  }

 private:
  void read_header(std::string_view text) {
    try {
      look_.header = first_line(text, look_.separator, name_, {}).header;
    } catch (const Error& error) {
      look_.clear_header = false;
      look_.problems.emplace_back(error.what());
    }
  }

  void read_rows() {
    if (!rows_.next()) throw user_error("{}: holds no lines", name_);
    width_ = rows_.cells().size();
    words_.emplace(width_);
    if (look_.header) names_.assign(rows_.cells().begin(), rows_.cells().end());
    for (bool more = !look_.header || rows_.next(); more; more = rows_.next()) {
      if (rows_.cells().size() != width_) {
        if (ragged_++ == 0) first_ragged_ = rows_.line();
        continue;
      }
      for (size_t column = 0; column < width_; ++column) {
        const std::string_view cell = rows_.cells()[column];
        double value = 0;
        const bool plain = !is_padded(cell) && read_number(cell, value);
        codes_.push_back(plain ? value : words_->code(column, cell, rows_.line()));
      }
      ++look_.rows;
    }
    if (look_.rows == 0) throw user_error("{}: holds no lines below its header", name_);
    if (ragged_ > 0)
      look_.problems.push_back(fmt::format(
          "{}: {} lines, the first of them line {}, have another number of cells than the {} of line 1",
          name_, ragged_, first_ragged_, width_));
  }

  ColumnLook look_at(size_t column) {
    const ColumnCells cells{codes_, width_, column, words_->of(column)};
    ColumnLook look;
    if (look_.header) look.name = names_[column];
    const std::string place = fmt::format("{}, column {}{}", name_, column + 1,
                                          look_.header ? fmt::format(" ('{}')", shown_cell(look.name)) : "");
    std::vector<int64_t> rows(cells.rows());
    std::iota(rows.begin(), rows.end(), int64_t{0});
    try {
      look.kind = column_kind("", cells, rows, place);
    } catch (const Error& error) {
      look.problem = error.what();
      look.possible = possible_kinds(cells);
    }
    look.missing = cells.words.missing;
    count_values(cells, look);
    return look;
  }

  static std::vector<ColumnKind> possible_kinds(const ColumnCells& cells) {
    using enum ColumnKind;
    std::vector<ColumnKind> possible;
    for (const ColumnKind kind : {number, decimal_comma, thousands, boolean, date, date_dmy, date_mdy}) {
      try {
        [[maybe_unused]] const ColumnEncoder reads_all(ColumnRule{.column = "", .kind = kind}, cells, "");
        possible.push_back(kind);
      } catch (const Error&) {
        continue;  // a cell is not of this kind
      }
    }
    possible.push_back(category);
    return possible;
  }

  static void count_values(const ColumnCells& cells, ColumnLook& look) {
    constexpr int64_t kMostCounted = 1000;
    std::map<std::string, int64_t> counts;
    for (size_t row = 0; row < cells.rows(); ++row)
      if (!TableWords::is_missing(cells[row])) ++counts[text_of(cells[row], cells.words)];
    look.different = std::ssize(counts);
    if (look.different <= kMostCounted)
      for (const auto& [text, count] : counts) look.counts.push_back(count);
    if (cells.words.texts > 0 || look.missing > 0) return;
    for (size_t row = 0; row < cells.rows(); ++row) look.numbers.push_back(cells[row]);
  }

  const std::string& name_;
  CsvRows rows_;
  size_t width_ = 0;
  std::vector<std::string> names_;
  std::optional<TableWords> words_;
  std::vector<double> codes_;
  int64_t ragged_ = 0;
  size_t first_ragged_ = 0;
  TableLook look_;
};

}  // namespace

TableLook look_at_table(std::string_view text, const std::string& name) { return Looking(text, name).run(); }

}  // namespace telar
