#include "telar/data/tables/csv_labels.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/tables/table_rules.h"

namespace telar {

namespace {

class LabelWords {
 public:
  LabelWords(const CsvOptions& options, const NamedTable& table, const std::vector<size_t>& columns,
             const TableWords& words)
      : options_(options), table_(table), at_(columns), words_(words) {}

  /// Labels that are texts become the classes of these names, in order of the names.
  void read(std::vector<double>& labels, CsvLabels& found) const {
    for (const size_t at : at_) {
      if (words_.of(at).missing == 0) continue;
      throw user_error("{}, {}, line {}: the label is missing; rows with a label are needed", table_.name,
                       column_text(table_, at), words_.of(at).first_missing);
    }
    if (!options_.targets.empty()) return require_numbers();
    const ColumnWords& words = words_.of(at_[0]);
    const std::string place = table_.name + ", " + column_text(table_, at_[0]);
    std::vector<std::string> classes = options_.class_names;
    if (words.texts == 0 && classes.empty()) return;
    if (words.texts < std::ssize(labels) && classes.empty()) {
      double unused = 0;
      throw user_error("{}, line {}{}, as {} other labels are", place, words.lines[0],
                       read_number(words.words[0], unused)
                           ? fmt::format(": '{}' is not a number", words.words[0])
                           : read_cell(words.words[0], unused),
                       std::ssize(labels) - words.texts);
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
      const auto known = std::ranges::find(classes, text);
      if (known == classes.end())
        throw user_error("{}: '{}' is not one of the labels {}", place, shown_cell(text),
                         quoted_names(classes));
      label = static_cast<double>(known - classes.begin());
    }
    found.classes = std::ssize(classes);
    found.class_names = std::move(classes);
  }

 private:
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
    for (const size_t at : at_) {
      const ColumnWords& words = words_.of(at);
      if (words.texts > 0)
        throw user_error("{}, line {}: '{}' is not a number, and the columns of data.targets are numbers",
                         table_.name + ", " + column_text(table_, at), words.lines[0],
                         shown_cell(words.words[0]));
    }
  }

  const CsvOptions& options_;
  NamedTable table_;
  const std::vector<size_t>& at_;
  const TableWords& words_;
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

std::string read_value(std::string_view cell, int64_t classes, double& value) {
  std::string fault = read_cell(cell, value);
  if (!fault.empty() || classes == 0) return fault;
  if (value == std::floor(value) && value >= 0 && value < static_cast<double>(classes)) return {};
  return fmt::format(": the label {} is not one of the {} classes 0 … {}", shown_cell(cell), classes,
                     classes - 1);
}

CsvLabels read_labels(const CsvOptions& options, const NamedTable& table, const std::vector<size_t>& columns,
                      const TableWords* words, std::vector<double>& labels) {
  CsvLabels found{.classes = options.targets.empty() ? options.classes : 0};
  if (words != nullptr) LabelWords(options, table, columns, *words).read(labels, found);
  if (found.classes != kCountedClasses) return found;
  found.classes = classes_in(labels);
  if (found.classes == 0) {
    const std::set<double> different(labels.begin(), labels.end());
    throw user_error(
        "{}: the labels have {} different values, from {} to {}; give data.classes: 0 if they are numbers to learn, or the number of classes, whose labels begin with 0",
        table.name, different.size(), *different.begin(), *different.rbegin());
  }
  found.note =
      fmt::format("{}: the labels are taken for {} classes; data.classes (0: numbers) says what they are",
                  table.name, found.classes);
  return found;
}

}  // namespace telar
