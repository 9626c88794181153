#include "telar/data/tables/csv.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/files.h"
#include "telar/data/in_memory.h"
#include "telar/data/rounding_loss.h"
#include "telar/data/tables/csv_columns.h"
#include "telar/data/tables/csv_labels.h"
#include "telar/data/tables/table_rules.h"
#include "telar/data/tables/table_split.h"

namespace telar {
namespace {

/// The cells of a table that cannot be used.
class CellFaults {
 public:
  void add(size_t column, size_t line, const std::string& fault) {
    const auto [found, first] = columns_.try_emplace(column, line, fault, 0);
    ++found->second.cells;
  }

  /// Throws Error (user) if there are any.
  void check(const NamedTable& table) const {
    if (columns_.empty()) return;
    constexpr size_t kShown = 10;
    const auto& [first_column, first] = *columns_.begin();
    if (columns_.size() == 1 && first.cells == 1)
      throw user_error("{}{}", place_of(table, first.line, first_column), first.fault);
    std::vector<std::string> texts;
    int64_t cells = 0;
    for (const auto& [column, faults] : columns_) {
      cells += faults.cells;
      if (texts.size() == kShown) continue;
      texts.push_back(fmt::format("{}, line {}{}{}", column_text(table, column), faults.line, faults.fault,
                                  faults.cells == 1 ? "" : fmt::format(" (and {} more)", faults.cells - 1)));
    }
    if (columns_.size() > kShown) texts.push_back(fmt::format("{} more columns", columns_.size() - kShown));
    throw user_error("{}: {} cells cannot be used: {}", table.name, cells, fmt::join(texts, "; "));
  }

 private:
  struct OfColumn {
    OfColumn(size_t at, std::string text, int64_t count) : line(at), fault(std::move(text)), cells(count) {}
    size_t line;  ///< of the first one
    std::string fault;
    int64_t cells;
  };
  std::map<size_t, OfColumn> columns_;
};

/// Reads a table once.
class TableReading {
 public:
  TableReading(std::string_view text, const CsvOptions& options, const std::string& name)
      : options_(options), rows_(options.separator, name), text_bytes_(text.size()) {
    rows_.begin(text);
    const bool decides = options.header == CsvHeader::automatic;
    const FirstLine first = decides ? first_line(text, options.separator, name, options.columns)
                                    : FirstLine{options.header == CsvHeader::present, ""};
    more_ = rows_.next();
    std::vector<std::string> names;
    if (more_ && first.header) {
      names.assign(rows_.cells().begin(), rows_.cells().end());
      more_ = rows_.next();
    }
    if (!more_) throw user_error("{}: holds no lines of numbers", name);
    columns_ = choose_columns(options, std::move(names), rows_);
    if (options.training_rows || !options.encoding.empty() || !options.class_names.empty())
      words_.emplace(columns_.width);
    note(first.note);
    for (const std::string& of_columns : columns_.notes) note(of_columns);
  }

  CsvTable run() {
    keep_names();
    read_rows();
    return std::move(table_);
  }

 private:
  bool predicts() const { return options_.use == CsvUse::predict; }
  const std::string& name() const { return rows_.name(); }
  NamedTable named() const { return {name(), columns_.names}; }

  void note(std::string text) {
    if (!text.empty()) table_.notes.push_back(std::move(text));
  }

  void keep_names() {
    if (columns_.names.empty() || (options_.columns.empty() && options_.use != CsvUse::train)) return;
    for (const size_t column : columns_.features) table_.columns.push_back(columns_.names[column]);
    if (columns_.labels.size() == 1 && options_.targets.empty())
      table_.label = columns_.names[columns_.labels[0]];
  }

  /// If all are as long as the next one.
  size_t expected_rows() const {
    size_t bytes = columns_.width;
    for (const std::string_view cell : rows_.cells()) bytes += cell.size();
    return text_bytes_ / bytes;
  }

  /// A cell of a table that may have more than numbers.
  double cell_of(size_t column) {
    const std::string_view cell = rows_.cells()[column];
    double value = 0;
    if (!is_padded(cell) && read_number(cell, value)) return value;
    return words_->code(column, cell, rows_.line());
  }

  void read_rows() {
    Bytes features;
    std::vector<double> values(columns_.features.size());  // of a row
    features.reserve(expected_rows() * values.size() * sizeof(double));
    std::vector<double> labels;
    std::vector<double> split_codes;
    CellFaults faults;
    const auto read = [&](size_t column, int64_t of_classes) {
      double value = words_ ? cell_of(column) : 0;
      if (words_ && (of_classes == 0 || std::isnan(value))) return value;
      std::string fault = read_value(rows_.cells()[column], of_classes, value);
      if (!fault.empty()) faults.add(column, rows_.line(), fault);
      return value;
    };
    if (predicts())
      for (const size_t column : columns_.dropped)
        table_.kept.emplace_back(columns_.names[column], std::vector<std::string>{});
    for (; more_; more_ = rows_.next()) {
      if (rows_.cells().size() != columns_.width) {
        throw user_error("{}, line {}: has {} cells, but {} has {}", name(), rows_.line(),
                         rows_.cells().size(), columns_.names.empty() ? "the first line" : "the header",
                         columns_.width);
      }
      for (size_t i = 0; i < values.size(); ++i) values[i] = read(columns_.features[i], 0);
      if (columns_.split) {
        const auto feature = std::ranges::find(columns_.features, *columns_.split);
        split_codes.push_back(feature == columns_.features.end()
                                  ? read(*columns_.split, 0)
                                  : values[static_cast<size_t>(feature - columns_.features.begin())]);
      }
      const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
      features.insert(features.end(), bytes, bytes + values.size() * sizeof(double));
      for (size_t i = 0; i < table_.kept.size(); ++i)
        table_.kept[i].second.emplace_back(rows_.cells()[columns_.dropped[i]]);
      if (predicts()) labels.push_back(0);
      for (size_t i = 0; i < columns_.labels.size() && !predicts(); ++i)
        labels.push_back(read(columns_.labels[i], std::max<int64_t>(0, options_.classes)));
      ++row_count_;
    }
    faults.check(named());
    SampleSpec spec;
    table_.classes = 1;
    if (!predicts()) {
      CsvLabels found = read_labels(options_, named(), columns_.labels, words_ ? &*words_ : nullptr, labels);
      note(std::move(found.note));
      table_.classes = found.classes;
      spec.class_names = std::move(found.class_names);
    }
    if (options_.training_rows) find_split_keys(labels, split_codes);
    if (words_) encode(features);
    spec.features = {static_cast<int64_t>(features.size() / sizeof(double)) / row_count_};
    spec.wide = true;
    spec.classes = table_.classes;
    Bytes label_bytes =
        spec.classes > 0 ? bytes_of(std::vector<int32_t>(labels.begin(), labels.end())) : targets_of(labels);
    if (spec.classes == 0) spec.labels = {std::ssize(columns_.labels)};
    table_.samples = in_memory(std::move(spec), std::move(features), 0, std::move(label_bytes));
  }

  void find_split_keys(const std::vector<double>& labels, const std::vector<double>& split_codes) {
    if (options_.split == SplitBy::stratified) table_.keys.assign(labels.begin(), labels.end());
    if (!columns_.split) return;
    if (columns_.is_label(*columns_.split))
      throw user_error("{}: data.split_column is the column of the label, '{}'", name(),
                       shown_cell(columns_.names[*columns_.split]));
    table_.keys = split_keys_of(options_.split, kind_given(columns_.names[*columns_.split]),
                                {split_codes, 1, 0, words_->of(*columns_.split)},
                                name() + ", " + column_text(named(), *columns_.split));
  }

  Bytes targets_of(const std::vector<double>& labels) {
    RoundingLoss rounding(columns_.labels.size());
    for (const double target : labels) rounding.add(target);
    note(target_warning(rounding, name()));
    return bytes_of(std::vector<float>(labels.begin(), labels.end()));
  }

  /// Of each feature column, how its cells become numbers; then these in the place of the cells.
  void encode(Bytes& features) {
    const std::span<const double> cells(reinterpret_cast<const double*>(features.data()),
                                        features.size() / sizeof(double));
    std::vector<ColumnRule> rules;
    const auto place = [&](size_t i) { return name() + ", " + column_text(named(), columns_.features[i]); };
    const auto cells_of = [&](size_t i) {
      return ColumnCells{cells, columns_.features.size(), i, words_->of(columns_.features[i])};
    };
    for (const std::string& entry : options_.kinds) {
      const std::string column = entry.substr(0, entry.rfind(": "));
      const bool known =
          column == options_.split_column || std::ranges::any_of(columns_.features, [&](size_t i) {
            return !columns_.names.empty() && columns_.names[i] == column;
          });
      if (!known) throw user_error("{}: data.kinds has the column '{}', which is no feature", name(), column);
    }
    const bool plain = std::ranges::all_of(columns_.features, [&](size_t column) {
      return words_->of(column).texts == 0 && words_->of(column).missing == 0;
    });
    if (plain && options_.encoding.empty() && options_.kinds.empty()) return;
    if (!options_.encoding.empty()) {
      for (const std::string& rule : options_.encoding) rules.push_back(ColumnRule::of(rule));
    } else if (options_.training_rows) {
      const auto column_of = [&](size_t i) {
        return columns_.names.empty() ? std::to_string(columns_.features[i])
                                      : columns_.names[columns_.features[i]];
      };
      const std::vector<int64_t> rows = options_.training_rows(row_count_, table_.keys);
      std::vector<ColumnKind> kinds;
      std::vector<std::string> mistakes;
      for (size_t i = 0; i < columns_.features.size(); ++i) {
        try {
          kinds.push_back(column_kind(kind_given(column_of(i)), cells_of(i), rows, place(i)));
        } catch (const Error& error) {
          mistakes.emplace_back(error.what());
        }
      }
      if (!mistakes.empty()) throw user_error("{}", fmt::join(mistakes, "; "));
      for (size_t i = 0; i < columns_.features.size(); ++i) {
        rules.push_back(decide_rule(column_of(i), kinds[i], cells_of(i), rows, place(i)));
        table_.encoding.push_back(rules.back().str());
        table_.described.push_back(described(rules.back(), cells_of(i), rows));
      }
    } else {
      throw user_error("{}: has texts or missing cells, but the model was trained on numbers only", name());
    }
    if (rules.size() != columns_.features.size())
      throw user_error("{}: data.encoding is of {} columns, but there are {}", name(), rules.size(),
                       columns_.features.size());
    std::vector<ColumnEncoder> encoders;
    std::vector<size_t> starts;
    size_t width = 0;
    for (size_t i = 0; i < rules.size(); ++i) {
      encoders.emplace_back(rules[i], cells_of(i), place(i));
      starts.push_back(width);
      width += rules[i].width();
    }
    if (width == 0) throw user_error("{}: no column is left that is a feature", name());
    const auto row_count = static_cast<size_t>(row_count_);
    std::vector<double> encoded(row_count * width);
    for (size_t row = 0; row < row_count; ++row)
      for (size_t i = 0; i < encoders.size(); ++i) encoders[i].write(row, &encoded[row * width + starts[i]]);
    for (size_t i = 0; i < encoders.size(); ++i) {
      if (encoders[i].unexpected() > 0)
        note(fmt::format(
            "{}: {} of its cells are missing, but none was in the rows of the training; they count as the mean",
            place(i), encoders[i].unexpected()));
    }
    features = bytes_of(encoded);
  }

  /// "" unless the job gives one.
  std::string kind_given(const std::string& column) const {
    for (const std::string& entry : options_.kinds)
      if (entry.substr(0, entry.rfind(": ")) == column) return entry.substr(column.size() + 2);
    return "";
  }

  const CsvOptions& options_;
  CsvRows rows_;
  size_t text_bytes_;
  bool more_ = false;  ///< the rows are at one that has not been read
  CsvColumns columns_;
  std::optional<TableWords> words_;  ///< if cells may be more than numbers
  int64_t row_count_ = 0;
  CsvTable table_;
};

}  // namespace

CsvTable csv_from_text(std::string_view text, const CsvOptions& options, const std::string& name) {
  constexpr size_t kTwoLetters =
      4;  // of UTF-16, which has a 0 in each that ASCII has, and usually a mark before
  if (text.substr(0, kTwoLetters).find('\0') != std::string_view::npos)
    throw user_error("{}: is UTF-16, or no text; save it as UTF-8", name);
  return TableReading(text, options, name).run();
}

CsvTable open_csv(const std::string& path, const CsvOptions& options) {
  const Bytes bytes = read_unpacked(path);
  return csv_from_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options, path);
}

}  // namespace telar
