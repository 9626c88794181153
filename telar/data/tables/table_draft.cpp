#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/files.h"
#include "telar/data/source_draft.h"
#include "telar/data/tables/csv.h"
#include "telar/data/tables/table_look.h"

namespace telar {

namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_among(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, std::string_view(name)) != names.end();
}

bool names_rows(const std::string& column) {
  const std::string name = lower(column);
  return is_among(name, {"", "id", "index", "unnamed: 0"}) || name.ends_with("_id");
}

class TableDrafting {
 public:
  TableDrafting(const std::string& file, const std::string& label) : file_(file) {
    const Bytes bytes = read_unpacked(file);
    look_ = look_at_table({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
    label_ = find_label(label);
  }

  SourceDraft run() {
    draft_.described = fmt::format("{} rows, {} columns", look_.rows, look_.columns.size());
    draft_.samples = look_.rows;
    draft_.model = "{name: mlp, options: {hidden: [64, 64]}}";
    draft_.problems.insert(draft_.problems.end(), look_.problems.begin(), look_.problems.end());
    add("path", file_);
    const std::string_view separators = ";\t ";
    const std::vector<std::string> names = {"semicolon", "tab", "space"};
    const size_t separator = separators.find(look_.separator);
    if (separator < names.size()) add("separator", names[separator]);
    if (!look_.clear_header) add("header", std::string("true"), "to check");
    take_label();
    take_features();
    return std::move(draft_);
  }

 private:
  void add(std::string name, Attribute value, std::string comment = "") {
    draft_.options.push_back({std::move(name), std::move(value), std::move(comment)});
  }

  size_t find_label(const std::string& wanted) {
    std::vector<std::string> names;
    for (const ColumnLook& column : look_.columns) names.push_back(column.name);
    if (!wanted.empty()) {
      const auto found = std::ranges::find(names, wanted);
      if (found != names.end()) return static_cast<size_t>(found - names.begin());
      const std::string near = nearest(wanted, names);
      throw user_error("{}: there is no column '{}'{}", file_, wanted,
                       near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
    }
    const auto known = std::ranges::find_if(names, [](const std::string& name) {
      return is_among(lower(name), {"label", "labels", "target", "class", "outcome", "y"});
    });
    const bool last = known == names.end();
    const size_t label = last ? names.size() - 1 : static_cast<size_t>(known - names.begin());
    draft_.problems.push_back(
        fmt::format("the label is taken to be {}, {}; --label names another",
                    look_.header ? "'" + names[label] + "'" : fmt::format("column {}", label + 1),
                    last ? "the last column" : "by its name"));
    return label;
  }

  void take_label() {
    const ColumnLook& label = look_.columns[label_];
    if (look_.header) add("label", label.name);
    if (label.missing > 0)
      draft_.problems.push_back(
          fmt::format("{} rows have no label; leave them out of the table", label.missing));
    if (!label.problem.empty()) draft_.problems.push_back(label.problem);
    if (label.different == 1) draft_.problems.emplace_back("all rows have the same label");
    if (label.numbers.empty() && label.different == look_.rows)
      draft_.problems.emplace_back(
          "each row has another label, so that there is nothing to learn of a class");
    if (!label.numbers.empty()) {  // others are texts, which are counted
      const int64_t classes = classes_in(label.numbers);
      draft_.classes = classes > 0;
      add("classes", classes,
          classes > 0 ? "labels 0, 1, …; 0: they are numbers to learn" : "a number to learn");
    }
    draft_.unequal = draft_.classes && are_unequal(label.counts);
  }

  void take_features() {
    std::vector<std::string> drop;
    std::vector<std::string> kinds;
    for (size_t i = 0; i < look_.columns.size(); ++i) {
      const ColumnLook& column = look_.columns[i];
      if (i == label_) continue;
      const bool row_number = look_.header && names_rows(column.name) && column.different == look_.rows;
      if (row_number) drop.push_back(column.name);
      if (row_number) continue;
      if (!column.problem.empty()) take_unclear(column, kinds);
      hint_at_splits(column);
    }
    if (!drop.empty()) add("drop", drop, "another value in each row");
    if (!kinds.empty()) add("kinds", kinds, "to check");
  }

  void take_unclear(const ColumnLook& column, std::vector<std::string>& kinds) {
    std::vector<std::string> names;
    for (const ColumnKind kind : column.possible) names.push_back(name_of_kind(kind));
    draft_.problems.push_back(fmt::format("{}; {} is taken", column.problem, names.front()));
    if (!column.name.empty()) kinds.push_back(column.name + ": " + names.front());
  }

  void hint_at_splits(const ColumnLook& column) {
    if (column.name.empty() || !column.kind) return;
    if (names_rows(column.name))
      draft_.hints.push_back(
          fmt::format("split: group with split_column: {} keeps rows of one value in one part", column.name));
    if (is_date(*column.kind))
      draft_.hints.push_back(fmt::format(
          "split: time with split_column: {} tests on the latest rows, as a forecast needs", column.name));
  }

  const std::string& file_;
  TableLook look_;
  size_t label_ = 0;
  SourceDraft draft_;
};

}  // namespace

bool are_unequal(const std::vector<int64_t>& classes) {
  return !classes.empty() && std::ranges::max(classes) > 3 * std::ranges::min(classes);
}

SourceDraft draft_of_table(const std::string& file, const std::string& label) {
  return TableDrafting(file, label).run();
}

}  // namespace telar
