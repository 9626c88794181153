#include "telar/data/tables/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/files.h"
#include "telar/data/in_memory.h"
#include "telar/data/rounding_loss.h"
#include "telar/data/tables/table_rules.h"
#include "telar/data/tables/table_split.h"

namespace telar {
namespace {

/// A table as messages name it.
struct NamedTable {
  const std::string& name;
  const std::vector<std::string>& columns;  ///< empty without a header
};

/// "column 2 ('b')".
std::string column_text(const NamedTable& table, size_t column) {
  return fmt::format("column {}{}", column + 1,
                     table.columns.empty() ? "" : fmt::format(" ('{}')", shown_cell(table.columns[column])));
}

std::string place_of(const NamedTable& table, size_t line, size_t column) {
  return fmt::format("{}, line {}, {}", table.name, line, column_text(table, column));
}

/// read_cell(), for a label of `classes`; 0: any number.
std::string read_value(std::string_view cell, int64_t classes, double& value) {
  std::string fault = read_cell(cell, value);
  if (!fault.empty() || classes == 0) return fault;
  if (value == std::floor(value) && value >= 0 && value < static_cast<double>(classes)) return {};
  return fmt::format(": the label {} is not one of the {} classes 0 … {}", shown_cell(cell), classes,
                     classes - 1);
}

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

/// Throws Error (user) for a table without features, too.
size_t label_column(const CsvOptions& options, const std::vector<std::string>& names, size_t columns,
                    const CsvRows& rows) {
  const std::string& file = rows.name();
  if (columns < 2) {
    throw user_error("{}, line {}: has a single column; features and a label, separated by '{}', are needed",
                     file, rows.line(), options.separator);
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
                         ? std::string(names.empty() ? "; without a header, columns have only numbers" : "")
                         : fmt::format("; did you mean '{}'?", near));
  }
  if (number < -count || number >= count) {
    throw user_error("{}: the label column {} is outside the {} columns 0 … {}", file, number, columns,
                     columns - 1);
  }
  return static_cast<size_t>(number < 0 ? number + count : number);
}

/// "'a', 'b' and 'c'".
std::string quoted_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", shown_cell(names[i]));
  return text + (names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

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
    if (more_ && first.header) {
      names_.assign(rows_.cells().begin(), rows_.cells().end());
      more_ = rows_.next();
    }
    if (!more_) throw user_error("{}: holds no lines of numbers", name);
    for (size_t i = 0; i < names_.size(); ++i) places_[names_[i]].push_back(i);
    width_ = first.header ? names_.size() : rows_.cells().size();
    if (options.training_rows || !options.encoding.empty() || !options.class_names.empty())
      words_.emplace(width_);
    note(first.note);
  }

  CsvTable run() {
    find_dropped();
    find_split_column();
    if (options_.columns.empty()) {
      choose_by_position();
    } else {
      choose_by_name();
    }
    read_rows();
    return std::move(table_);
  }

 private:
  bool predicts() const { return options_.use == CsvUse::predict; }
  const std::string& name() const { return rows_.name(); }
  NamedTable named() const { return {name(), names_}; }

  void note(std::string text) {
    if (!text.empty()) table_.notes.push_back(std::move(text));
  }

  /// Throws Error (user) for two columns of the name.
  std::optional<size_t> find(const std::string& column) const {
    const auto found = places_.find(column);
    if (found == places_.end()) return std::nullopt;
    const std::vector<size_t>& at = found->second;
    if (at.size() > 1)
      throw user_error("{}, line 1: columns {} and {} have the same name, '{}'; give them different names",
                       name(), at[0] + 1, at[1] + 1, shown_cell(column));
    return at[0];
  }

  void find_dropped() {
    for (const std::string& column : options_.drop) {
      const std::optional<size_t> at = find(column);
      if (at) dropped_.push_back(*at);
      if (at || options_.use != CsvUse::train) continue;
      throw user_error("{}: data.drop has the column '{}', which the table has not{}", name(), column,
                       nearest_text(column));
    }
  }

  void find_split_column() {
    const std::string& column = options_.split_column;
    if (column.empty() || !options_.training_rows) return;
    split_at_ = find(column);
    if (!split_at_)
      throw user_error("{}: data.split_column is '{}', {}", name(), column,
                       names_.empty() ? "but the table has no header with names"
                                      : "which the table has not" + nearest_text(column));
    // Groups and parts of later samples are others, or tell nothing.
    if (options_.split != SplitBy::time) dropped_.push_back(*split_at_);
  }

  bool is_dropped(size_t column) const { return std::ranges::find(dropped_, column) != dropped_.end(); }

  void find_label() {
    if (!options_.targets.empty()) return find_targets();
    if (!predicts()) {
      labels_at_ = {label_column(options_, names_, width_, rows_)};
      if (!names_.empty()) find(names_[labels_at_[0]]);
    } else if (!options_.label.empty()) {
      if (const auto at = find(options_.label)) labels_at_ = {*at};
    }
  }

  void find_targets() {
    for (const std::string& column : options_.targets) {
      const std::optional<size_t> at = find(column);
      if (!at && !predicts())
        throw user_error("{}: data.targets has the column '{}', which the table has not{}", name(), column,
                         nearest_text(column));
      if (at && is_label(*at)) throw user_error("{}: data.targets has the column '{}' twice", name(), column);
      if (at) labels_at_.push_back(*at);
    }
  }

  bool is_label(size_t column) const { return std::ranges::find(labels_at_, column) != labels_at_.end(); }

  /// "; did you mean 'price'?"
  std::string nearest_text(const std::string& column) const {
    const std::string near = nearest(column, names_);
    return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
  }

  void choose_by_name() {
    if (names_.empty()) return choose_in_order_of_names();
    std::vector<std::string> missing;
    for (const std::string& column : options_.columns) {
      const std::optional<size_t> at = find(column);
      if (at) features_.push_back(*at);
      if (!at) missing.push_back(column);
    }
    if (!missing.empty())
      throw user_error("{}, line 1: there {} no column{} {}; the table has {}", name(),
                       missing.size() == 1 ? "is" : "are", missing.size() == 1 ? "" : "s",
                       quoted_names(missing), quoted_names(names_));
    find_label();
    require_no_feature(labels_at_, "the column of the label, ");
    if (options_.use == CsvUse::train)
      require_no_feature(dropped_, "a column that is no feature by data.drop or data.split_column, ");
    keep_names();
    if (options_.use != CsvUse::train) tell_left_out();
  }

  void require_no_feature(const std::vector<size_t>& columns, std::string_view what) const {
    for (const size_t column : columns)
      if (std::ranges::count(features_, column) > 0)
        throw user_error("{}: data.columns has {}'{}'", name(), what, shown_cell(names_[column]));
  }

  /// The table has no names.
  void choose_in_order_of_names() {
    if (!predicts() || width_ != options_.columns.size())
      throw user_error(
          "{}: line 1 has no names, and {} columns; the columns {}{} are needed, so the table needs a header",
          name(), width_, quoted_names(options_.columns),
          predicts() || options_.label.empty() ? "" : fmt::format(" and '{}'", options_.label));
    note(fmt::format("{}: has no header, so its columns are taken for {}", name(),
                     quoted_names(options_.columns)));
    all_but_label();
  }

  void choose_by_position() {
    find_label();
    all_but_label();
    if (names_.empty()) return;
    if (options_.use != CsvUse::train)
      return note(fmt::format(
          "{}: the model was trained without names of columns, so these are taken by position", name()));
    for (const std::string& column : names_) find(column);
    keep_names();
    if ((names_[0].empty() || names_[0] == "Unnamed: 0") && !is_dropped(0))
      note(
          fmt::format("{}: column 1 has no name, like the index that pandas writes, and is a feature; "
                      "data.columns lists others, and DataFrame.to_csv(index=False) leaves it out",
                      name()));
  }

  void all_but_label() {
    for (size_t i = 0; i < width_; ++i)
      if (!is_label(i) && !is_dropped(i)) features_.push_back(i);
  }

  void keep_names() {
    for (const size_t column : features_) table_.columns.push_back(names_[column]);
    if (labels_at_.size() == 1 && options_.targets.empty()) table_.label = names_[labels_at_[0]];
  }

  void tell_left_out() {
    std::vector<bool> taken(width_);
    for (const size_t column : features_) taken[column] = true;
    for (const size_t column : dropped_) taken[column] = true;
    for (const size_t label : labels_at_) taken[label] = true;
    std::vector<std::string> others;
    for (size_t i = 0; i < width_; ++i)
      if (!taken[i]) others.push_back(names_[i]);
    if (!others.empty())
      note(fmt::format("{}: the model does not take {}; left out", name(), quoted_names(others)));
    if (!predicts()) return;
    for (const size_t label : labels_at_)
      note(fmt::format("{}: '{}' is the label; left out", name(), shown_cell(names_[label])));
  }

  /// If all are as long as the next one.
  size_t expected_rows() const {
    size_t bytes = width_;
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
    std::vector<double> values(features_.size());  // of a row
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
      for (const size_t column : dropped_)
        table_.kept.emplace_back(names_[column], std::vector<std::string>{});
    for (; more_; more_ = rows_.next()) {
      if (rows_.cells().size() != width_) {
        throw user_error("{}, line {}: has {} cells, but {} has {}", name(), rows_.line(),
                         rows_.cells().size(), names_.empty() ? "the first line" : "the header", width_);
      }
      for (size_t i = 0; i < values.size(); ++i) values[i] = read(features_[i], 0);
      if (split_at_) {
        const auto feature = std::ranges::find(features_, *split_at_);
        split_codes.push_back(feature == features_.end()
                                  ? read(*split_at_, 0)
                                  : values[static_cast<size_t>(feature - features_.begin())]);
      }
      const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
      features.insert(features.end(), bytes, bytes + values.size() * sizeof(double));
      for (size_t i = 0; i < table_.kept.size(); ++i)
        table_.kept[i].second.emplace_back(rows_.cells()[dropped_[i]]);
      if (predicts()) labels.push_back(0);
      for (size_t i = 0; i < labels_at_.size() && !predicts(); ++i)
        labels.push_back(read(labels_at_[i], std::max<int64_t>(0, options_.classes)));
      ++row_count_;
    }
    faults.check(named());
    table_.classes = predicts() ? 1 : options_.targets.empty() ? options_.classes : 0;
    SampleSpec spec;
    if (words_ && !predicts()) read_label_words(labels, spec);
    if (table_.classes == kCountedClasses) count_classes(labels);
    if (options_.training_rows) find_split_keys(labels, split_codes);
    if (words_) encode(features);
    spec.features = {static_cast<int64_t>(features.size() / sizeof(double)) / row_count_};
    spec.wide = true;
    spec.classes = table_.classes;
    Bytes label_bytes =
        spec.classes > 0 ? bytes_of(std::vector<int32_t>(labels.begin(), labels.end())) : targets_of(labels);
    if (spec.classes == 0) spec.targets = {std::ssize(labels_at_)};
    table_.samples = in_memory(std::move(spec), std::move(features), 0, std::move(label_bytes));
  }

  void find_split_keys(const std::vector<double>& labels, const std::vector<double>& split_codes) {
    if (options_.split == SplitBy::stratified) table_.keys.assign(labels.begin(), labels.end());
    if (!split_at_) return;
    if (is_label(*split_at_))
      throw user_error("{}: data.split_column is the column of the label, '{}'", name(),
                       shown_cell(names_[*split_at_]));
    table_.keys = split_keys_of(options_.split, kind_given(names_[*split_at_]),
                                {split_codes, 1, 0, words_->of(*split_at_)},
                                name() + ", " + column_text(named(), *split_at_));
  }

  Bytes targets_of(const std::vector<double>& labels) {
    RoundingLoss rounding(labels_at_.size());
    for (const double target : labels) rounding.add(target);
    note(target_warning(rounding, name()));
    return bytes_of(std::vector<float>(labels.begin(), labels.end()));
  }

  /// Of each feature column, how its cells become numbers; then these in the place of the cells.
  void encode(Bytes& features) {
    const std::span<const double> cells(reinterpret_cast<const double*>(features.data()),
                                        features.size() / sizeof(double));
    std::vector<ColumnRule> rules;
    const auto place = [&](size_t i) { return name() + ", " + column_text(named(), features_[i]); };
    const auto cells_of = [&](size_t i) {
      return ColumnCells{cells, features_.size(), i, words_->of(features_[i])};
    };
    for (const std::string& entry : options_.kinds) {
      const std::string column = entry.substr(0, entry.rfind(": "));
      const bool known = column == options_.split_column || std::ranges::any_of(features_, [&](size_t i) {
                           return !names_.empty() && names_[i] == column;
                         });
      if (!known) throw user_error("{}: data.kinds has the column '{}', which is no feature", name(), column);
    }
    const bool plain = std::ranges::all_of(features_, [&](size_t column) {
      return words_->of(column).texts == 0 && words_->of(column).missing == 0;
    });
    if (plain && options_.encoding.empty() && options_.kinds.empty()) return;
    if (!options_.encoding.empty()) {
      for (const std::string& rule : options_.encoding) rules.push_back(ColumnRule::of(rule));
    } else if (options_.training_rows) {
      const auto column_of = [&](size_t i) {
        return names_.empty() ? std::to_string(features_[i]) : names_[features_[i]];
      };
      const std::vector<int64_t> rows = options_.training_rows(row_count_, table_.keys);
      std::vector<ColumnKind> kinds;
      std::vector<std::string> mistakes;
      for (size_t i = 0; i < features_.size(); ++i) {
        try {
          kinds.push_back(column_kind(kind_given(column_of(i)), cells_of(i), rows, place(i)));
        } catch (const Error& error) {
          mistakes.emplace_back(error.what());
        }
      }
      if (!mistakes.empty()) throw user_error("{}", fmt::join(mistakes, "; "));
      for (size_t i = 0; i < features_.size(); ++i) {
        rules.push_back(decide_rule(column_of(i), kinds[i], cells_of(i), rows, place(i)));
        table_.encoding.push_back(rules.back().str());
        table_.described.push_back(described(rules.back(), cells_of(i), rows));
      }
    } else {
      throw user_error("{}: has texts or missing cells, but the model was trained on numbers only", name());
    }
    if (rules.size() != features_.size())
      throw user_error("{}: data.encoding is of {} columns, but there are {}", name(), rules.size(),
                       features_.size());
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

  /// Labels that are texts become the classes of these names, in order of the names.
  void read_label_words(std::vector<double>& labels, SampleSpec& spec) {
    for (const size_t at : labels_at_) {
      if (words_->of(at).missing == 0) continue;
      throw user_error("{}, {}, line {}: the label is missing; rows with a label are needed", name(),
                       column_text(named(), at), words_->of(at).first_missing);
    }
    if (!options_.targets.empty()) return require_numbers();
    const ColumnWords& words = words_->of(labels_at_[0]);
    const std::string place = name() + ", " + column_text(named(), labels_at_[0]);
    std::vector<std::string> classes = options_.class_names;
    if (words.texts == 0 && classes.empty()) return;
    if (words.texts < row_count_ && classes.empty()) {
      double unused = 0;
      throw user_error("{}, line {}{}, as {} other labels are", place, words.lines[0],
                       read_number(words.words[0], unused)
                           ? fmt::format(": '{}' is not a number", words.words[0])
                           : read_cell(words.words[0], unused),
                       row_count_ - words.texts);
    }
    if (options_.classes <= 0 && classes.empty()) require_names(words, place);
    if (classes.empty()) {
      classes = words.words;
      std::ranges::sort(classes);
    }
    if (options_.classes != kCountedClasses && options_.classes != std::ssize(classes))
      throw user_error("{}: there are {} different labels ({}), but data.classes is {}; leave it out", place,
                       classes.size(), quoted_names(classes), options_.classes);
    for (double& label : labels) {
      const std::string text = text_of(label, words);
      const auto found = std::ranges::find(classes, text);
      if (found == classes.end())
        throw user_error("{}: '{}' is not one of the labels {}", place, shown_cell(text),
                         quoted_names(classes));
      label = static_cast<double>(found - classes.begin());
    }
    table_.classes = std::ssize(classes);
    spec.class_names = std::move(classes);
  }

  /// Numbers and dates of some spelling would each be a class.
  void require_names(const ColumnWords& words, const std::string& place) const {
    using enum ColumnKind;
    const bool padded = std::ranges::all_of(words.words, is_padded);  // 01067
    for (const ColumnKind kind : {decimal_comma, thousands, date, date_dmy, date_mdy}) {
      if (padded || !all_are(kind, words)) continue;
      throw user_error(
          "{}, line {}: '{}' and all other labels are of the kind {}, but {}", place, words.lines[0],
          shown_cell(words.words[0]), name_of_kind(kind),
          is_date(kind)
              ? "a label is a number or the name of a class"
              : "labels are numbers only if they are plain, as in 1234.5; if they are classes, give data.classes");
    }
    if (options_.classes == 0)
      throw user_error(
          "{}, line {}: '{}' is not a number, but data.classes is 0; leave it out if labels are classes",
          place, words.lines[0], shown_cell(words.words[0]));
  }

  /// Of several labels.
  void require_numbers() const {
    for (const size_t at : labels_at_) {
      const ColumnWords& words = words_->of(at);
      if (words.texts > 0)
        throw user_error("{}, line {}: '{}' is not a number, and the columns of data.targets are numbers",
                         name() + ", " + column_text(named(), at), words.lines[0],
                         shown_cell(words.words[0]));
    }
  }

  void count_classes(const std::vector<double>& labels) {
    table_.classes = classes_in(labels);
    if (table_.classes == 0) {
      const std::set<double> different(labels.begin(), labels.end());
      throw user_error(
          "{}: the labels have {} different values, from {} to {}; give data.classes: 0 if they are numbers to learn, or the number of classes, whose labels begin with 0",
          name(), different.size(), *different.begin(), *different.rbegin());
    }
    note(fmt::format("{}: the labels are taken for {} classes; data.classes (0: numbers) says what they are",
                     name(), table_.classes));
  }

  const CsvOptions& options_;
  std::optional<TableWords> words_;  ///< if cells may be more than numbers
  std::vector<size_t> dropped_;
  std::optional<size_t> split_at_;
  int64_t row_count_ = 0;
  CsvRows rows_;
  size_t text_bytes_;
  bool more_ = false;                                  ///< the rows are at one that has not been read
  std::vector<std::string> names_;                     ///< empty without a header
  std::map<std::string, std::vector<size_t>> places_;  ///< the columns of each name
  size_t width_ = 0;
  std::vector<size_t> features_;   ///< their columns
  std::vector<size_t> labels_at_;  ///< the label's column, or those of the targets
  CsvTable table_;
};

}  // namespace

int64_t classes_in(std::span<const double> labels) {
  const auto whole = [](double label) { return label >= 0 && label == std::floor(label); };
  const std::set<double> different(labels.begin(), labels.end());
  const auto count = std::ssize(different);
  const bool few = count <= std::max<int64_t>(2, std::ssize(labels) / 10) || count <= 20;
  const double most = *different.rbegin();
  const bool classes = std::ranges::all_of(labels, whole) && few && most <= 2 * static_cast<double>(count);
  return classes ? static_cast<int64_t>(most) + 1 : 0;
}

CsvTable csv_from_text(std::string_view text, const CsvOptions& options, const std::string& name) {
  constexpr size_t kTwoLetters =
      4;  // of UTF-16, which has a 0 in each that ASCII has, and usually a mark before
  if (text.substr(0, kTwoLetters).find('\0') != std::string_view::npos)
    throw user_error("{}: is UTF-16, or no text; save it as UTF-8", name);
  return TableReading(text, options, name).run();
}

class CsvLine::Taken {
 public:
  Taken(const CsvOptions& options, bool labelled, int64_t features, const std::string& name)
      : options_(options),
        labelled_(labelled),
        features_(static_cast<size_t>(features)),
        name_(name),
        rows_(options.separator, name_) {}

  size_t take(std::string_view text) {
    rows_.begin(text);
    size_t lines = 0;
    while (rows_.next()) ++lines;
    if (lines != 1) throw user_error("{} has {} lines; it must be one", name_, lines);
    const size_t cells = rows_.cells().size();
    label_at_ = cells;
    if (!labelled_ && cells == features_) return cells;
    label_at_ = label_column(options_, {}, cells, rows_);
    return cells - 1;
  }

  /// T: float or double.
  template <typename T>
  void read(std::span<T> features, std::span<std::byte> label) const {
    size_t feature = 0;
    for (size_t column = 0; feature < features.size(); ++column) {
      if (column != label_at_) features[feature++] = static_cast<T>(number(column, 0));
    }
    if (!labelled_) return;
    const double value = number(label_at_, options_.classes);
    if (options_.classes > 0) {
      as_ints(label)[0] = static_cast<int32_t>(value);
    } else {
      as_floats(label)[0] = static_cast<float>(value);
    }
  }

 private:
  double number(size_t column, int64_t classes) const {
    double value = 0;
    const std::string fault = read_value(rows_.cells()[column], classes, value);
    if (!fault.empty()) throw user_error("{}{}", place_of({name_, {}}, rows_.line(), column), fault);
    return value;
  }

  CsvOptions options_;
  bool labelled_;
  size_t features_;
  std::string name_;
  CsvRows rows_;
  size_t label_at_ = 0;
};

CsvLine::CsvLine(const CsvOptions& options, bool labelled, int64_t features, const std::string& name)
    : taken_(std::make_unique<Taken>(options, labelled, features, name)) {}
CsvLine::~CsvLine() = default;

size_t CsvLine::take(std::string_view text) { return taken_->take(text); }
void CsvLine::read(std::span<float> features, std::span<std::byte> label) const {
  taken_->read(features, label);
}
void CsvLine::read(std::span<double> features, std::span<std::byte> label) const {
  taken_->read(features, label);
}

CsvTable open_csv(const std::string& path, const CsvOptions& options) {
  const Bytes bytes = read_unpacked(path);
  return csv_from_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options, path);
}

}  // namespace telar
