#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "support/sentences.h"
#include "telar/data/tables/csv.h"
#include "telar/data/tables/table_rules.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

/// Cells of a column, which repeat, and what it is.
struct Tricky {
  std::string name;
  std::vector<std::string> cells;
  ColumnKind kind;
  size_t width = 1;
};

using enum ColumnKind;

const std::vector<Tricky>& tricky_columns() {
  static const std::vector<Tricky> columns = {
      {"whole", {"3", "-4", "5"}, number},
      {"real", {"0.5", "2.25"}, number},
      {"scientific", {"1e3", "2E-2"}, number},
      {"leading_zeros", {"007", "012", "120"}, category, 3},
      {"postcode", {"01067", "10115", "80331", "01067"}, category, 3},
      {"yes_no", {"yes", "No", "no"}, boolean},
      {"true_false", {"TRUE", "FALSE"}, boolean},
      {"with_na", {"1", "NA", "3"}, number, 2},
      {"with_gaps", {"1", "", "3"}, number, 2},
      {"with_n_a", {"2.5", "n/a", "?"}, number, 2},
      {"decimal_comma", {"\"3,14\"", "\"2,5\"", "7"}, decimal_comma},
      {"negative_comma", {"\"-3,1\"", "\"1.234,5\""}, decimal_comma},
      {"thousands", {"\"1,234,567\"", "\"1,234.5\"", "12"}, thousands},
      {"iso", {"2026-11-27", "2025-01-31"}, date, 5},
      {"iso_time", {"2026-11-27T10:30", "2025-01-31 23:59:59"}, date, 7},
      {"day_first", {"27.11.2026", "01.02.2025"}, date_dmy, 5},
      {"day_first_slash", {"27/11/2026", "01/02/2025"}, date_dmy, 5},
      {"month_first", {"11/27/2026", "01/02/2025"}, date_mdy, 5},
      {"date_with_gap", {"2026-11-27", "", "2025-01-31"}, date, 6},
      {"all_empty", {""}, left_out, 0},
      {"one_text", {"same"}, left_out, 0},
      {"one_number", {"7"}, number},
      {"city", {"Berlin", "Paris", "Berlin"}, category, 2},
      {"city_with_gaps", {"Berlin", "", "Paris"}, category, 3},
      {"comma_inside", {"\"a, b\"", "\"c\""}, category, 2},
      {"umlaut", {"K\xC3\xB6ln", "Bonn"}, category, 2},
      {"latin_1", {"K\xF6ln", "Bonn"}, category, 2},
      {"text_label", {"setosa", "virginica"}, category, 2}};
  return columns;
}

/// A table of these columns, with 12 rows, one that has another text in each row, and a label.
std::string table_of(const std::vector<Tricky>& columns) {
  std::string text = "\xEF\xBB\xBF";
  for (const Tricky& column : columns) text += column.name + ",";
  text += "every_row_another,label\r\n";
  for (size_t row = 0; row < 12; ++row) {
    for (const Tricky& column : columns) text += column.cells[row % column.cells.size()] + ",";
    text += "id-" + std::to_string(row * row) + "," + std::to_string(row % 2) + "\r\n";
  }
  return text;
}

std::vector<int64_t> all_rows(int64_t rows, const SplitKeys& /*keys*/) {
  std::vector<int64_t> numbers(static_cast<size_t>(rows));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

CsvOptions training_options() {
  CsvOptions options;
  options.classes = kCountedClasses;
  options.training_rows = all_rows;
  return options;
}

CsvTable trained_on(const std::string& text, const CsvOptions& options = training_options()) {
  return csv_from_text(text, options, "t.csv");
}

std::map<std::string, ColumnRule> rules_of(const CsvTable& table) {
  std::map<std::string, ColumnRule> rules;
  for (const std::string& text : table.encoding) {
    ColumnRule rule = ColumnRule::of(text);
    const std::string column = rule.column;
    rules.emplace(column, std::move(rule));
  }
  return rules;
}

std::vector<double> row_of(const CsvTable& table, int64_t row) {
  std::vector<double> features(table.samples->spec().feature_bytes() / sizeof(double));
  std::vector<std::byte> label(table.samples->spec().label_bytes());
  table.samples->read(row, {}, std::as_writable_bytes(std::span(features)), label);
  return features;
}

int32_t label_of(const CsvTable& table, int64_t row) {
  std::vector<double> features(table.samples->spec().feature_bytes() / sizeof(double));
  int32_t label = 0;
  table.samples->read(row, {}, std::as_writable_bytes(std::span(features)),
                      std::as_writable_bytes(std::span(&label, 1)));
  return label;
}

TEST(TableKinds, AreWhatTheCellsTell) {
  const CsvTable table = trained_on(table_of(tricky_columns()));
  auto rules = rules_of(table);
  size_t width = 0;
  for (const Tricky& column : tricky_columns()) {
    const ColumnRule& rule = rules.at(column.name);
    EXPECT_EQ(rule.kind, column.kind) << column.name;
    EXPECT_EQ(rule.width(), column.width) << column.name;
    width += column.width;
  }
  EXPECT_EQ(rules.at("every_row_another").kind, left_out);
  EXPECT_EQ(table.samples->spec().features, Shape{static_cast<int64_t>(width)});
  EXPECT_EQ(table.classes, 2);
  EXPECT_EQ(rules.at("latin_1").words, rules.at("umlaut").words);
  EXPECT_EQ(rules.at("postcode").words[0], "01067");
  EXPECT_EQ(table.described.size(), tricky_columns().size() + 1);
}

TEST(TableKinds, AreThoseOfTheJobIfItGivesThem) {
  const std::string text = table_of(tricky_columns());
  for (const Tricky& column : tricky_columns()) {
    for (const char* kind : {"left_out", "category"}) {
      CsvOptions options = training_options();
      options.kinds = {column.name + ": " + kind};
      const ColumnKind found = rules_of(trained_on(text, options)).at(column.name).kind;
      const bool of_one = column.name.starts_with("one_") || column.name == "all_empty";
      EXPECT_EQ(found, kind == std::string("category") && !of_one ? category : left_out) << column.name;
    }
  }
}

TEST(TableKinds, BecomeTheseNumbers) {
  const CsvTable table = trained_on(
      "zip,member,gap,euro,day,city,y\n"
      "01067,yes,1,\"1.234,5\",2024-07-01T06:00,A,0\n"
      "10115,no,,\"2,5\",2024-01-01T00:00,B,1\n"
      "01067,no,4,\"3,5\",1970-01-01T12:00,A,0\n"
      "10115,yes,7,\"4,5\",,B,1\n"
      "10115,yes,7,\"4,5\",2024-01-01T00:00,C,1\n");
  EXPECT_EQ(rules_of(table).at("zip").names(), (std::vector<std::string>{"zip=10115", "zip=01067"}));
  // zip ×2, member, gap, its indicator, euro, day, year ×2, week ×2, day ×2, its indicator, city ×2 and rare
  const std::vector<double> first = row_of(table, 0);
  ASSERT_EQ(first.size(), 17U);
  EXPECT_EQ(std::vector<double>(first.begin(), first.begin() + 6),
            (std::vector<double>{0, 1, 1, 1, 0, 1234.5}));
  EXPECT_EQ(first[6], 19905.25);  // Python: (datetime(2024, 7, 1, 6) - datetime(1970, 1, 1)) / timedelta(1)
  EXPECT_NEAR(first[7], std::sin(2 * M_PI * 182.25 / 366), 1e-12);
  EXPECT_NEAR(first[9], std::sin(2 * M_PI * (19905.25 - 4) / 7), 1e-9);  // 1970-01-05 was a Monday
  EXPECT_NEAR(first[11], 1, 1e-9);                                       // 6 o'clock
  EXPECT_EQ(std::vector<double>(first.begin() + 13, first.end()), (std::vector<double>{0, 1, 0, 0}));
  const std::vector<double> second = row_of(table, 1);
  EXPECT_EQ(second[3], (1 + 4 + 7 + 7) / 4.0);  // the mean of the others
  EXPECT_EQ(second[4], 1);
  const std::vector<double> fourth = row_of(table, 3);
  EXPECT_EQ(std::vector<double>(fourth.begin() + 7, fourth.begin() + 14),
            (std::vector<double>{0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(row_of(table, 4)[16], 1);  // C is rare
}

TEST(TableKinds, AreDecidedByTheTrainingRowsAlone) {
  CsvOptions options = training_options();
  options.training_rows = [](int64_t, const SplitKeys&) { return std::vector<int64_t>{0, 1, 2, 3}; };
  const std::string text = "city,size,y\nA,1,0\nA,3,1\nB,1,0\nB,3,1\nC,100,0\nC,,1\n";
  const CsvTable table = trained_on(text, options);
  const auto rules = rules_of(table);
  EXPECT_EQ(rules.at("city").words, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(rules.at("size").mean, 2);
  EXPECT_EQ(row_of(table, 4), (std::vector<double>{0, 0, 100}));  // unknown: a code of its own
  EXPECT_EQ(row_of(table, 5), (std::vector<double>{0, 0, 2}));
  ASSERT_EQ(table.notes.size(), 2U);
  EXPECT_TRUE(
      says(table.notes[1],
           "column 2 ('size'): 1 of its cells are missing, but none was in the rows of the training"));
  EXPECT_TRUE(says(table.notes[0], "2 classes"));
}

TEST(TableKinds, AreAppliedToOtherTables) {
  CsvOptions options = training_options();
  options.drop = {"id"};
  const CsvTable trained =
      trained_on("id,city,size,species\n1,A,1,cat\n2,B,,dog\n3,A,2,cat\n4,B,3,cow\n", options);
  EXPECT_EQ(trained.samples->spec().class_names, (std::vector<std::string>{"cat", "cow", "dog"}));
  EXPECT_EQ(trained.classes, 3);
  EXPECT_EQ(label_of(trained, 1), 2);
  CsvOptions others{.label = trained.label, .classes = 3, .columns = trained.columns};
  others.class_names = trained.samples->spec().class_names;
  others.encoding = trained.encoding;
  others.drop = {"id"};
  others.use = CsvUse::test;
  const CsvTable test = csv_from_text("species,size,city\ndog,5,B\ncat,,Z\n", others, "u.csv");
  EXPECT_EQ(label_of(test, 0), 2);
  EXPECT_EQ(row_of(test, 0), (std::vector<double>{0, 1, 5, 0}));
  EXPECT_EQ(row_of(test, 1), (std::vector<double>{0, 0, 2, 1}));
  EXPECT_TRUE(says(sentence_of([&] { csv_from_text("species,size,city\nfox,5,B\n", others, "u.csv"); }),
                   "'fox' is not one of the labels 'cat', 'cow' and 'dog'"));
  others.use = CsvUse::predict;
  const CsvTable predicted = csv_from_text("size,id,city\n5,x-1,B\n6,x-2,A\n", others, "u.csv");
  ASSERT_EQ(predicted.kept.size(), 1U);
  EXPECT_EQ(predicted.kept[0].second, (std::vector<std::string>{"x-1", "x-2"}));
  EXPECT_EQ(row_of(predicted, 1), (std::vector<double>{1, 0, 6, 0}));
  EXPECT_TRUE(says(sentence_of([&] { csv_from_text("size,city\nbig,B\n", others, "u.csv"); }),
                   "u.csv, column 1 ('size'), line 2: 'big' is not a number"));
}

TEST(TableKinds, AreRefusedIfTheyAreNotClear) {
  const auto mistake = [](const std::string& column, const std::vector<std::string>& cells) {
    std::string text = column + ",y\n";
    for (size_t i = 0; i < cells.size(); ++i) text += cells[i] + "," + std::to_string(i % 2) + "\n";
    return sentence_of([&] { trained_on(text); });
  };
  EXPECT_TRUE(
      says(mistake("a", {"1", "2", "x", "4"}),
           "t.csv, column 1 ('a'), line 4: 'x' is not a number; 3 other cells of the column are numbers"));
  EXPECT_TRUE(says(mistake("a", {"3 kg", "2", "4 kg"}), "'3 kg' is not a number"));
  EXPECT_TRUE(says(mistake("a", {"01/02/2025", "03/04/2025"}), "may be date_dmy or date_mdy; say which"));
  EXPECT_TRUE(says(mistake("a", {"\"1,234\"", "\"2,345\""}), "may be decimal_comma or thousands; say which"));
  EXPECT_TRUE(says(mistake("a", {"\"1,5\"", "2.5"}), "'1,5' is not a number"));
  EXPECT_TRUE(says(mistake("a", {"", "NA"}), "no column is left that is a feature"));
  EXPECT_TRUE(says(sentence_of([] { trained_on("a,y\n1,cat\n2,\n"); }), "the label is missing"));
  EXPECT_TRUE(says(sentence_of([] { trained_on("a,y\n1,cat\n2,3\n"); }), "'cat' is not a number"));
  EXPECT_TRUE(says(sentence_of([] { trained_on("a,y\n1,1.5\n2,3\n"); }), "give data.classes: 0"));
  CsvOptions ten = training_options();
  ten.classes = 10;
  EXPECT_TRUE(says(sentence_of([&] { trained_on("a,y\n1,cat\n2,dog\n", ten); }),
                   "there are 2 different labels ('cat' and 'dog'), but data.classes is 10"));
  CsvOptions unknown = training_options();
  unknown.kinds = {"a: colour"};
  EXPECT_TRUE(says(sentence_of([&] { trained_on("a,y\n1,0\n2,1\n", unknown); }),
                   "there is no kind of column 'colour'"));
  unknown.kinds = {"b: category"};
  EXPECT_TRUE(
      says(sentence_of([&] { trained_on("a,y\n1,0\n2,1\n", unknown); }), "data.kinds has the column 'b'"));
  unknown.kinds = {};
  unknown.drop = {"prise"};
  EXPECT_TRUE(says(sentence_of([&] { trained_on("price,y\n1,0\n2,1\n", unknown); }),
                   "data.drop has the column 'prise', which the table has not; did you mean 'price'?"));
  unknown.drop = {"id"};
  unknown.columns = {"a", "id"};
  EXPECT_TRUE(says(sentence_of([&] { trained_on("id,a,y\n1,0,0\n2,1,1\n", unknown); }),
                   "data.columns has a column that is no feature by data.drop or data.split_column, 'id'"));
}

TEST(TableKinds, LabelsOfNumbersAreNotTakenForClasses) {
  const auto mistake = [](const std::string& labels, int64_t classes) {
    CsvOptions options = training_options();
    options.classes = classes;
    return sentence_of([&] { trained_on("a,y\n1," + labels, options); });
  };
  const std::string prices = "\"1000,5\"\n2,\"1007,5\"\n";
  for (const int64_t classes : {int64_t{0}, kCountedClasses})
    EXPECT_TRUE(says(mistake(prices, classes),
                     "column 2 ('y'), line 2: '1000,5' and all other labels are of the kind decimal_comma"));
  EXPECT_EQ(mistake(prices, 2), "");
  EXPECT_TRUE(says(mistake("2026-11-27\n2,2026-11-28\n", kCountedClasses), "are of the kind date"));
  EXPECT_TRUE(says(mistake("cat\n2,dog\n", 0), "'cat' is not a number, but data.classes is 0"));
  EXPECT_EQ(mistake("01\n2,02\n", kCountedClasses), "");
}

TEST(TableKinds, AreOfColumnsWithAnyName) {
  CsvOptions options = training_options();
  options.kinds = {"day: first: category"};
  auto rules = rules_of(trained_on("day: first,day,y\n1,1,0\n2,2,1\n1,1,0\n2,2,1\n", options));
  EXPECT_EQ(rules.at("day: first").kind, category);
  EXPECT_EQ(rules.at("day").kind, number);
}

TEST(TableKinds, OfNumbersAloneChangeNothing) {
  const std::string text = "a,b,y\n1,2.5,0\n-3,1e3,1\n";
  const CsvTable before = csv_from_text(text, {.classes = 2}, "t.csv");
  const CsvTable now = trained_on(text);
  EXPECT_TRUE(now.encoding.empty());
  for (int64_t row = 0; row < 2; ++row) EXPECT_EQ(row_of(now, row), row_of(before, row));
}

}  // namespace
}  // namespace telar
