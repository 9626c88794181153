#include "telar/data/csv.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "telar/comm/printable.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/in_memory.h"

namespace telar {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// A cell for error messages.
std::string shown(std::string_view cell) {
  constexpr size_t kLongest = 60;
  return printable(std::string(cell), kLongest);
}

/// Iterates over the lines of a table, split into cells.
class Table {
 public:
  Table(std::string_view text, char separator, const std::string& name)
      : rest_(text), separator_(separator), name_(name) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);  // byte-order mark of spreadsheet programs
  }

  /// Advances to the next line that is not blank; false at the end.
  bool next() {
    while (!rest_.empty()) {
      const size_t end = rest_.find('\n');
      std::string_view line = rest_.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      ++line_;
      if (trimmed(line).empty()) continue;
      split(line);
      return true;
    }
    return false;
  }

  size_t line() const { return line_; }
  const std::vector<std::string_view>& cells() const { return cells_; }

 private:
  void split(std::string_view line) {
    cells_.clear();
    size_t begin = 0;
    while (true) {
      const size_t quote = separator_ == ' ' ? begin : line.find_first_not_of(' ', begin);
      const bool quoted = quote < line.size() && line[quote] == '"';
      size_t from = begin;
      if (quoted) {
        from = line.find('"', quote + 1);
        if (from == std::string_view::npos) {
          throw user_error("{}, line {}, column {}: the quotation mark is not closed on this line", name_,
                           line_, cells_.size() + 1);
        }
      }
      const size_t end = line.find(separator_, from);
      const std::string_view cell = trimmed(line.substr(begin, end - begin));
      const bool whole = quoted && cell.size() >= 2 && cell.back() == '"';
      cells_.push_back(whole ? trimmed(cell.substr(1, cell.size() - 2)) : cell);
      if (end == std::string_view::npos) return;
      begin = end + 1;
    }
  }

  std::string_view rest_;
  char separator_;
  const std::string& name_;
  size_t line_ = 0;
  std::vector<std::string_view> cells_;
};

size_t label_column(const CsvOptions& options, const std::vector<std::string>& names, size_t columns,
                    const std::string& file) {
  if (options.label.empty()) return columns - 1;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == options.label) return i;
  }
  int64_t number = 0;
  const char* end = options.label.data() + options.label.size();
  const auto [stop, error] = std::from_chars(options.label.data(), end, number);
  const auto count = static_cast<int64_t>(columns);
  if (error != std::errc() || stop != end) {
    const std::string near = nearest(options.label, names);
    throw user_error("{}, line 1: there is no column '{}'{}", file, options.label,
                     near.empty()
                         ? std::string(options.header ? "" : "; without a header, columns have only numbers")
                         : fmt::format("; did you mean '{}'?", near));
  }
  if (number < -count || number >= count) {
    throw user_error("{}: the label column {} is outside the {} columns 0 … {}", file, number, columns,
                     columns - 1);
  }
  return static_cast<size_t>(number < 0 ? number + count : number);
}

/// Converts cells to numbers; its error messages name the cell.
class CellReader {
 public:
  CellReader(const std::vector<std::string>& names, const std::string& file) : names_(names), file_(file) {}

  float number(const Table& table, size_t column) const {
    std::string_view cell = table.cells()[column];
    if (cell.empty()) throw user_error("{} is empty; a number is needed", place(table, column));
    if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
    float value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    const bool whole = end == cell.data() + cell.size();
    if (error == std::errc::result_out_of_range && whole && !is_tiny(cell)) {
      throw user_error("{}: '{}' is too large for an f32 number", place(table, column), shown(cell));
    }
    if (error == std::errc::invalid_argument || !whole) {
      throw user_error("{}: '{}' is not a number", place(table, column), shown(cell));
    }
    if (!std::isfinite(value)) {
      throw user_error("{}: '{}' cannot be learned from; a finite number is needed", place(table, column),
                       shown(cell));
    }
    return value;
  }

  int32_t label(const Table& table, size_t column, int64_t classes) const {
    const float value = number(table, column);
    if (value != std::floor(value) || value < 0 || value >= static_cast<float>(classes)) {
      throw user_error("{}: the label {} is not one of the {} classes 0 … {}", place(table, column),
                       shown(table.cells()[column]), classes, classes - 1);
    }
    return static_cast<int32_t>(value);
  }

 private:
  /// Whether a number that from_chars reports as out of range is just too close to 0; it then counts as 0.
  static bool is_tiny(std::string_view cell) {
    double value = 0;
    const auto result = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (result.ec == std::errc()) return std::fabs(value) < 1;
    const size_t exponent = cell.find_first_of("eE");
    return exponent != std::string_view::npos && cell.substr(exponent + 1).starts_with('-');
  }

  std::string place(const Table& table, size_t column) const {
    const std::string name = names_.empty() ? std::string() : fmt::format(" ('{}')", shown(names_[column]));
    return fmt::format("{}, line {}, column {}{}", file_, table.line(), column + 1, name);
  }

  const std::vector<std::string>& names_;
  const std::string& file_;
};

}  // namespace

DatasetPtr csv_from_text(std::string_view text, const CsvOptions& options, const std::string& name) {
  Table table(text, options.separator, name);
  std::vector<std::string> names;
  bool more = table.next();
  if (more && options.header) {
    names.assign(table.cells().begin(), table.cells().end());
    more = table.next();
  }
  if (!more) throw user_error("{}: holds no lines of numbers", name);
  const size_t columns = options.header ? names.size() : table.cells().size();
  if (columns < 2) {
    throw user_error("{}, line {}: has a single column; features and a label, separated by '{}', are needed",
                     name, table.line(), options.separator);
  }
  const size_t label_at = label_column(options, names, columns, name);
  const CellReader reader(names, name);

  std::vector<float> features;
  std::vector<float> targets;
  std::vector<int32_t> classes;
  for (; more; more = table.next()) {
    if (table.cells().size() != columns) {
      throw user_error("{}, line {}: has {} cells, but {} has {}", name, table.line(), table.cells().size(),
                       options.header ? "the header" : "the first line", columns);
    }
    for (size_t column = 0; column < columns; ++column) {
      if (column != label_at) features.push_back(reader.number(table, column));
    }
    if (options.classes > 0) {
      classes.push_back(reader.label(table, label_at, options.classes));
    } else {
      targets.push_back(reader.number(table, label_at));
    }
  }
  SampleSpec spec;
  spec.features = {static_cast<int64_t>(columns - 1)};
  spec.classes = options.classes;
  if (options.classes == 0) spec.targets = {1};
  return in_memory(std::move(spec), bytes_of(features), 0,
                   options.classes > 0 ? bytes_of(classes) : bytes_of(targets));
}

DatasetPtr open_csv(const std::string& path, const CsvOptions& options) {
  const Bytes bytes = read_file(path);
  return csv_from_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options, path);
}

}  // namespace telar
