#include "telar/data/tables/csv_columns.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"

namespace telar {

namespace {

class ColumnChoice {
 public:
  ColumnChoice(const CsvOptions& options, std::vector<std::string> names, const CsvRows& rows)
      : options_(options), rows_(rows), name_(rows.name()), predicts_(options.use == CsvUse::predict) {
    chosen_.width = names.empty() ? rows.cells().size() : names.size();
    chosen_.names = std::move(names);
    for (size_t i = 0; i < chosen_.names.size(); ++i) places_[chosen_.names[i]].push_back(i);
  }

  CsvColumns run() {
    find_dropped();
    find_split_column();
    if (options_.columns.empty()) {
      choose_by_position();
    } else {
      choose_by_name();
    }
    return std::move(chosen_);
  }

 private:
  void note(std::string text) { chosen_.notes.push_back(std::move(text)); }

  /// Throws Error (user) for two columns of the name.
  std::optional<size_t> find(const std::string& column) const {
    const auto found = places_.find(column);
    if (found == places_.end()) return std::nullopt;
    const std::vector<size_t>& at = found->second;
    if (at.size() > 1)
      throw user_error("{}, line 1: columns {} and {} have the same name, '{}'; give them different names",
                       name_, at[0] + 1, at[1] + 1, shown_cell(column));
    return at[0];
  }

  void find_dropped() {
    for (const std::string& column : options_.drop) {
      const std::optional<size_t> at = find(column);
      if (at) chosen_.dropped.push_back(*at);
      if (at || options_.use != CsvUse::train) continue;
      throw user_error("{}: data.drop has the column '{}', which the table has not{}", name_, column,
                       nearest_text(column));
    }
  }

  void find_split_column() {
    const std::string& column = options_.split_column;
    if (column.empty() || !options_.training_rows) return;
    chosen_.split = find(column);
    if (!chosen_.split)
      throw user_error("{}: data.split_column is '{}', {}", name_, column,
                       chosen_.names.empty() ? "but the table has no header with names"
                                             : "which the table has not" + nearest_text(column));
    // Groups and parts of later samples are others, or tell nothing.
    if (options_.split != SplitBy::time) chosen_.dropped.push_back(*chosen_.split);
  }

  bool is_dropped(size_t column) const {
    return std::ranges::find(chosen_.dropped, column) != chosen_.dropped.end();
  }

  void find_label() {
    if (!options_.targets.empty()) return find_targets();
    if (!predicts_) {
      chosen_.labels = {label_column(options_, chosen_.names, chosen_.width, rows_)};
      if (!chosen_.names.empty()) find(chosen_.names[chosen_.labels[0]]);
    } else if (!options_.label.empty()) {
      if (const auto at = find(options_.label)) chosen_.labels = {*at};
    }
  }

  void find_targets() {
    for (const std::string& column : options_.targets) {
      const std::optional<size_t> at = find(column);
      if (!at && !predicts_)
        throw user_error("{}: data.targets has the column '{}', which the table has not{}", name_, column,
                         nearest_text(column));
      if (at && chosen_.is_label(*at))
        throw user_error("{}: data.targets has the column '{}' twice", name_, column);
      if (at) chosen_.labels.push_back(*at);
    }
  }

  /// "; did you mean 'price'?"
  std::string nearest_text(const std::string& column) const {
    const std::string near = nearest(column, chosen_.names);
    return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
  }

  void choose_by_name() {
    if (chosen_.names.empty()) return choose_in_order_of_names();
    std::vector<std::string> missing;
    for (const std::string& column : options_.columns) {
      const std::optional<size_t> at = find(column);
      if (at) chosen_.features.push_back(*at);
      if (!at) missing.push_back(column);
    }
    if (!missing.empty())
      throw user_error("{}, line 1: there {} no column{} {}; the table has {}", name_,
                       missing.size() == 1 ? "is" : "are", missing.size() == 1 ? "" : "s",
                       quoted_names(missing), quoted_names(chosen_.names));
    find_label();
    require_no_feature(chosen_.labels, "the column of the label, ");
    if (options_.use == CsvUse::train)
      require_no_feature(chosen_.dropped, "a column that is no feature by data.drop or data.split_column, ");
    if (options_.use != CsvUse::train) tell_left_out();
  }

  void require_no_feature(const std::vector<size_t>& columns, std::string_view what) const {
    for (const size_t column : columns)
      if (std::ranges::count(chosen_.features, column) > 0)
        throw user_error("{}: data.columns has {}'{}'", name_, what, shown_cell(chosen_.names[column]));
  }

  /// The table has no names.
  void choose_in_order_of_names() {
    if (!predicts_ || chosen_.width != options_.columns.size())
      throw user_error(
          "{}: line 1 has no names, and {} columns; the columns {}{} are needed, so the table needs a header",
          name_, chosen_.width, quoted_names(options_.columns),
          predicts_ || options_.label.empty() ? "" : fmt::format(" and '{}'", options_.label));
    note(fmt::format("{}: has no header, so its columns are taken for {}", name_,
                     quoted_names(options_.columns)));
    all_but_label();
  }

  void choose_by_position() {
    find_label();
    all_but_label();
    if (chosen_.names.empty()) return;
    if (options_.use != CsvUse::train)
      return note(fmt::format(
          "{}: the model was trained without names of columns, so these are taken by position", name_));
    for (const std::string& column : chosen_.names) find(column);
    if ((chosen_.names[0].empty() || chosen_.names[0] == "Unnamed: 0") && !is_dropped(0))
      note(
          fmt::format("{}: column 1 has no name, like the index that pandas writes, and is a feature; "
                      "data.columns lists others, and DataFrame.to_csv(index=False) leaves it out",
                      name_));
  }

  void all_but_label() {
    for (size_t i = 0; i < chosen_.width; ++i)
      if (!chosen_.is_label(i) && !is_dropped(i)) chosen_.features.push_back(i);
  }

  void tell_left_out() {
    std::vector<bool> taken(chosen_.width);
    for (const size_t column : chosen_.features) taken[column] = true;
    for (const size_t column : chosen_.dropped) taken[column] = true;
    for (const size_t label : chosen_.labels) taken[label] = true;
    std::vector<std::string> others;
    for (size_t i = 0; i < chosen_.width; ++i)
      if (!taken[i]) others.push_back(chosen_.names[i]);
    if (!others.empty())
      note(fmt::format("{}: the model does not take {}; left out", name_, quoted_names(others)));
    if (!predicts_) return;
    for (const size_t label : chosen_.labels)
      note(fmt::format("{}: '{}' is the label; left out", name_, shown_cell(chosen_.names[label])));
  }

  const CsvOptions& options_;
  const CsvRows& rows_;
  const std::string& name_;
  bool predicts_;
  std::map<std::string, std::vector<size_t>> places_;  ///< the columns of each name
  CsvColumns chosen_;
};

}  // namespace

std::string column_text(const NamedTable& table, size_t column) {
  return fmt::format("column {}{}", column + 1,
                     table.columns.empty() ? "" : fmt::format(" ('{}')", shown_cell(table.columns[column])));
}

std::string place_of(const NamedTable& table, size_t line, size_t column) {
  return fmt::format("{}, line {}, {}", table.name, line, column_text(table, column));
}

std::string quoted_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", shown_cell(names[i]));
  return text + (names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

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

bool CsvColumns::is_label(size_t column) const { return std::ranges::find(labels, column) != labels.end(); }

CsvColumns choose_columns(const CsvOptions& options, std::vector<std::string> names, const CsvRows& rows) {
  return ColumnChoice(options, std::move(names), rows).run();
}

}  // namespace telar
