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
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// A cell for error messages.
std::string shown(std::string_view cell) {
  constexpr size_t kLongest = 60;
  return printable(std::string(cell), kLongest);
}

/// Iterates over the lines of a table, split into cells.
class Table {
 public:
  Table(char separator, const std::string& name) : separator_(separator), name_(name) {}

  void begin(std::string_view text) {
    rest_ = text;
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);  // byte-order mark of spreadsheet programs
    line_ = 0;
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

  const std::string& name() const { return name_; }
  size_t line() const { return line_; }
  const std::vector<std::string_view>& cells() const { return cells_; }

 private:
  void split(std::string_view line) {
    cells_.clear();
    size_t begin = 0;
    while (true) {
      const size_t end = line.find(separator_, is_plain(line, begin) ? begin : quotes_end(line, begin));
      cells_.push_back(content_of(line.substr(begin, end - begin)));
      if (end == std::string_view::npos) return;
      begin = end + 1;
    }
  }

  /// Most cells begin with neither space nor a quotation mark.
  static bool is_plain(std::string_view line, size_t begin) {
    return begin < line.size() && line[begin] != ' ' && line[begin] != '"';
  }

  /// The closing quotation mark of the cell, if it is quoted; otherwise its beginning.
  size_t quotes_end(std::string_view line, size_t begin) const {
    const size_t quote = separator_ == ' ' ? begin : line.find_first_not_of(' ', begin);
    if (quote >= line.size() || line[quote] != '"') return begin;
    const size_t closing = line.find('"', quote + 1);
    if (closing == std::string_view::npos) {
      throw user_error("{}, line {}, column {}: the quotation mark is not closed on this line", name_, line_,
                       cells_.size() + 1);
    }
    return closing;
  }

  /// Without the space around it, and without quotation marks.
  static std::string_view content_of(std::string_view cell) {
    cell = trimmed(cell);
    const bool quoted = cell.size() >= 2 && cell.front() == '"' && cell.back() == '"';
    return quoted ? trimmed(cell.substr(1, cell.size() - 2)) : cell;
  }

  std::string_view rest_;
  char separator_;
  const std::string& name_;
  size_t line_ = 0;
  std::vector<std::string_view> cells_;
};

/// Throws Error (user) for a table without features, too.
size_t label_column(const CsvOptions& options, const std::vector<std::string>& names, size_t columns,
                    const Table& table) {
  const std::string& file = table.name();
  if (columns < 2) {
    throw user_error("{}, line {}: has a single column; features and a label, separated by '{}', are needed",
                     file, table.line(), options.separator);
  }
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
  Table table(options.separator, name);
  table.begin(text);
  std::vector<std::string> names;
  bool more = table.next();
  if (more && options.header) {
    names.assign(table.cells().begin(), table.cells().end());
    more = table.next();
  }
  if (!more) throw user_error("{}: holds no lines of numbers", name);
  const size_t columns = options.header ? names.size() : table.cells().size();
  const size_t label_at = label_column(options, names, columns, table);
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

class CsvLine::Taken {
 public:
  Taken(const CsvOptions& options, bool labelled, int64_t features, const std::string& name)
      : options_(options),
        labelled_(labelled),
        features_(static_cast<size_t>(features)),
        name_(name),
        table_(options.separator, name_),
        reader_(names_, name_) {}

  size_t take(std::string_view text) {
    table_.begin(text);
    size_t lines = 0;
    while (table_.next()) ++lines;
    if (lines != 1) throw user_error("{} has {} lines; it must be one", name_, lines);
    const size_t cells = table_.cells().size();
    label_at_ = cells;
    if (!labelled_ && cells == features_) return cells;
    label_at_ = label_column(options_, names_, cells, table_);
    return cells - 1;
  }

  void read(std::span<float> features, std::span<std::byte> label) const {
    size_t feature = 0;
    for (size_t column = 0; feature < features.size(); ++column) {
      if (column != label_at_) features[feature++] = reader_.number(table_, column);
    }
    if (!labelled_) return;
    if (options_.classes > 0) {
      as_ints(label)[0] = reader_.label(table_, label_at_, options_.classes);
    } else {
      as_floats(label)[0] = reader_.number(table_, label_at_);
    }
  }

 private:
  CsvOptions options_;
  bool labelled_;
  size_t features_;
  std::string name_;
  std::vector<std::string> names_;  ///< none, without a header
  Table table_;
  CellReader reader_;
  size_t label_at_ = 0;
};

CsvLine::CsvLine(const CsvOptions& options, bool labelled, int64_t features, const std::string& name)
    : taken_(std::make_unique<Taken>(options, labelled, features, name)) {}
CsvLine::~CsvLine() = default;

size_t CsvLine::take(std::string_view text) { return taken_->take(text); }
void CsvLine::read(std::span<float> features, std::span<std::byte> label) const {
  taken_->read(features, label);
}

DatasetPtr open_csv(const std::string& path, const CsvOptions& options) {
  const Bytes bytes = read_file(path);
  return csv_from_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options, path);
}

}  // namespace telar
