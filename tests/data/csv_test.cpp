#include "telar/data/csv.h"

#include <gtest/gtest.h>

#include "data/support.h"

namespace telar::test {
namespace {

DatasetPtr parse(std::string_view text, const CsvOptions& options) {
  return csv_from_text(text, options, "FILE");
}

void expect_rejected(std::string_view text, const CsvOptions& options,
                     const std::vector<std::string_view>& pieces) {
  expect_error([&] { parse(text, options); }, pieces);
}

const CsvOptions kThreeClasses{.label = "kind", .classes = 3};

TEST(Csv, LabelColumnByNameOrNumber) {
  const std::string_view text = "a,kind,b\n1,2,-0.5\n3e2,0,+4\n";
  for (const char* label : {"kind", "1", "-2"}) {
    const DatasetPtr data = parse(text, {.label = label, .classes = 3});
    ASSERT_EQ(data->size(), 2);
    EXPECT_EQ(data->spec().features, Shape({2}));
    EXPECT_EQ(read(*data, 0), (Sample{{1, -0.5F}, {}, 2, {}}));
    EXPECT_EQ(read(*data, 1), (Sample{{300, 4}, {}, 0, {}}));
  }
}

TEST(Csv, WithoutHeaderTheLastColumnIsTheLabel) {
  const DatasetPtr data = parse("1;2;0\n3;4;1", {.header = false, .separator = ';', .classes = 2});
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(read(*data, 1), (Sample{{3, 4}, {}, 1, {}}));
}

TEST(Csv, WithoutClassesTheLabelIsATarget) {
  const DatasetPtr data = parse("x,y\n1,2.5\n", {});
  EXPECT_EQ(data->spec().targets, Shape({1}));
  EXPECT_EQ(read(*data, 0), (Sample{{1}, {}, -1, {2.5F}}));
}

TEST(Csv, ReadsWhatSpreadsheetsWrite) {
  const DatasetPtr data =
      parse("\xEF\xBB\xBF\"a, first\", \"kind\"\r\n \"1.5\" , 2 \r\n\r\n1e-50,0\r\n\r\n", kThreeClasses);
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(read(*data, 0), (Sample{{1.5F}, {}, 2, {}}));
  EXPECT_EQ(read(*data, 1), (Sample{{0}, {}, 0, {}}));
  const DatasetPtr tabs = parse("a\tkind\n1\t2\n", {.label = "kind", .separator = '\t', .classes = 3});
  EXPECT_EQ(read(*tabs, 0), (Sample{{1}, {}, 2, {}}));
}

TEST(Csv, ReportsBadCellsByLineAndColumn) {
  const auto bad = [](std::string_view cell) { return "a,b,kind\n1,2,0\n\n1," + std::string(cell) + ",0\n"; };
  expect_rejected(bad(""), kThreeClasses, {"FILE, line 4, column 2 ('b')", "empty"});
  expect_rejected(bad("  "), kThreeClasses, {"line 4, column 2", "empty"});
  expect_rejected(bad("NaN"), kThreeClasses, {"line 4, column 2", "NaN", "finite"});
  expect_rejected(bad("-inf"), kThreeClasses, {"line 4, column 2", "-inf", "finite"});
  expect_rejected(bad("1.2.3"), kThreeClasses, {"line 4, column 2", "'1.2.3' is not a number"});
  expect_rejected(bad("tall"), kThreeClasses, {"line 4, column 2", "'tall' is not a number"});
  expect_rejected(bad("1e99"), kThreeClasses, {"line 4, column 2", "too large"});
  expect_rejected(bad("+-1"), kThreeClasses, {"is not a number"});
  expect_rejected(bad("\"1"), kThreeClasses, {"line 4, column 2", "quotation mark"});
}

TEST(Csv, EveryLineHasTheSameNumberOfCells) {
  expect_rejected("a,kind\n1,0\n1,2,0\n", kThreeClasses, {"FILE, line 3", "3 cells", "the header has 2"});
  expect_rejected("1,0\n1\n", {.header = false, .classes = 2}, {"line 2", "1 cells", "the first line has 2"});
  expect_rejected("a\tkind\n\t\t\n1\t\n", {.label = "kind", .separator = '\t', .classes = 3},
                  {"line 3", "empty"});
}

TEST(Csv, LabelsAreWholeNumbersWithinTheClasses) {
  for (const char* label : {"3", "-1", "0.5", "1e9"}) {
    expect_rejected("a,kind\n1," + std::string(label), kThreeClasses,
                    {"line 2, column 2 ('kind')", label, "0 … 2"});
  }
}

TEST(Csv, UnknownColumnsGetASuggestion) {
  expect_rejected("a,kind\n1,0\n", {.label = "kimd", .classes = 3}, {"'kimd'", "did you mean 'kind'?"});
  expect_rejected("a,kind\n1,0\n", {.label = "2", .classes = 3}, {"column 2", "0 … 1"});
  expect_rejected("1,0\n", {.header = false, .label = "kind", .classes = 3}, {"only numbers"});
}

TEST(Csv, NeedsLinesAndColumns) {
  expect_rejected("", kThreeClasses, {"no lines"});
  expect_rejected("a,kind\n", kThreeClasses, {"no lines"});
  expect_rejected("kind\n1\n", kThreeClasses, {"single column"});
  expect_error([] { open_csv("/nonexistent/table.csv", {}); }, {"/nonexistent/table.csv", "no such file"});
}

}  // namespace
}  // namespace telar::test
