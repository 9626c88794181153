#include "telar/data/tables/csv.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <random>

#include "data/support.h"
#include "telar/data/rounding_loss.h"
#include "telar/data/tables/csv_rows.h"

namespace telar::test {
namespace {

DatasetPtr parse(std::string_view text, const CsvOptions& options) {
  return csv_from_text(text, options, "FILE").samples;
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
  const DatasetPtr data =
      parse("1;2;0\n3;4;1", {.header = CsvHeader::absent, .separator = ';', .classes = 2});
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(read(*data, 1), (Sample{{3, 4}, {}, 1, {}}));
}

TEST(Csv, WithoutClassesTheLabelIsATarget) {
  const DatasetPtr data = parse("x,y\n1,2.5\n", {});
  EXPECT_EQ(data->spec().labels, Shape({1}));
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
  expect_rejected("1,0\n1\n", {.header = CsvHeader::absent, .classes = 2},
                  {"line 2", "1 cells", "the first line has 2"});
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
  expect_rejected("1,0\n", {.header = CsvHeader::absent, .label = "kind", .classes = 3}, {"only numbers"});
}

const CsvOptions kAskedFor{.label = "kind", .classes = 3, .columns = {"b", "a"}, .use = CsvUse::predict};

CsvTable predicted(std::string_view text, const CsvOptions& options = kAskedFor) {
  return csv_from_text(text, options, "FILE");
}

TEST(Csv, TrainingTakesTheNamesOfTheColumns) {
  const CsvTable table = csv_from_text("a,kind,b\n1,2,3\n", kThreeClasses, "FILE");
  EXPECT_EQ(table.columns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(table.label, "kind");
  EXPECT_TRUE(table.notes.empty());
  const CsvTable chosen =
      csv_from_text("id,a,kind,b\n7,1,2,3\n", {.label = "kind", .classes = 3, .columns = {"b", "a"}}, "FILE");
  EXPECT_EQ(read(*chosen.samples, 0).values, (std::vector<float>{3, 1}));
  EXPECT_TRUE(chosen.notes.empty()) << "the user has chosen them";
}

TEST(Csv, ColumnsAreFoundByNameInAnyOrder) {
  const CsvTable table = predicted("id,a,kind,b\n9,1,0,2\n8,3,,4\n");
  ASSERT_EQ(table.samples->size(), 2);
  EXPECT_EQ(read(*table.samples, 0).values, (std::vector<float>{2, 1}));
  EXPECT_EQ(read(*table.samples, 1).values, (std::vector<float>{4, 3})) << "a label may be missing";
  ASSERT_EQ(table.notes.size(), 2U);
  EXPECT_TRUE(says(table.notes[0], "FILE: the model does not take 'id'; left out"));
  EXPECT_TRUE(says(table.notes[1], "'kind' is the label; left out"));
  EXPECT_EQ(read(*predicted("b,a\n2,1\n").samples, 0).values, (std::vector<float>{2, 1}));

  CsvOptions test = kAskedFor;
  test.use = CsvUse::test;
  EXPECT_EQ(read(*predicted("kind,b,a\n1,2,3\n", test).samples, 0), (Sample{{2, 3}, {}, 1, {}}));
  expect_rejected("b,a\n1,2\n", test, {"there is no column 'kind'"});
}

TEST(Csv, ColumnsThatAreMissingAreNamed) {
  expect_rejected("c,d\n1,2\n", kAskedFor,
                  {"FILE, line 1: there are no columns 'b' and 'a'; the table has 'c' and 'd'"});
  expect_rejected("A,b\n1,2\n", kAskedFor, {"there is no column 'a'; the table has 'A' and 'b'"});
}

TEST(Csv, TwoColumnsOfOneNameAreRefusedWhereTheyAreUsed) {
  expect_rejected("a,b,a,kind\n1,2,3,0\n", kThreeClasses,
                  {"line 1: columns 1 and 3 have the same name, 'a'"});
  expect_rejected("a,kind,kind\n1,0,0\n", kThreeClasses, {"columns 2 and 3", "'kind'"});
  expect_rejected("a,b,a\n1,2,3\n", kAskedFor, {"columns 1 and 3"});
  EXPECT_EQ(predicted("x,b,a,x\n1,2,3,4\n").samples->size(), 1);
}

TEST(Csv, WithoutNamesATableToPredictGoesByPosition) {
  const CsvTable old = predicted("b,a\n1,2\n", {.use = CsvUse::predict});
  EXPECT_EQ(read(*old.samples, 0).values, (std::vector<float>{1, 2}));
  ASSERT_EQ(old.notes.size(), 1U);
  EXPECT_TRUE(says(old.notes[0], "trained without names of columns, so these are taken by position"));

  const CsvTable bare = predicted("1.5,2\n3,4\n");
  ASSERT_EQ(bare.samples->size(), 2) << "line 1 is no header";
  EXPECT_EQ(read(*bare.samples, 0).values, (std::vector<float>{1.5F, 2}));
  EXPECT_TRUE(says(bare.notes.at(1), "has no header, so its columns are taken for 'b' and 'a'"));
  expect_rejected("1,2,0\n3,4,1\n", kAskedFor, {"line 1 has no names, and 3 columns"});
  expect_rejected("0,1,2\n5.5,7,8\n5.6,7,9\n5.7,7,8\n", kAskedFor,
                  {"no columns 'b' and 'a'", "has '0', '1' and '2'"});
  expect_rejected("0,1,2\n0.5,1,8\n", kAskedFor, {"line 1 may contain the names", "or the first row"});
}

int64_t rows_of(std::string_view text) { return csv_from_text(text, {.classes = 0}, "FILE").samples->size(); }

TEST(Csv, AFileWithoutAHeaderKeepsItsFirstRow) {
  const CsvTable table =
      csv_from_text("5.1,3.5,0\n4.9,3.0,0\n6.3,3.3,1\n5.8,2.7,1\n", {.classes = 2}, "FILE");
  EXPECT_EQ(table.samples->size(), 4);
  EXPECT_TRUE(table.columns.empty());
  ASSERT_EQ(table.notes.size(), 1U);
  EXPECT_TRUE(says(table.notes[0], "FILE: line 1 (5.1, 3.5, 0) is taken for a row"));
  EXPECT_EQ(rows_of("1,1\n2,4\n3,9\n4,16\n5,25\n"), 5) << "a first row may be the least in every column";
}

TEST(Csv, NumbersThatNoColumnHasAreAHeader) {
  const CsvTable pandas = csv_from_text("0,1,2\n5.1,3.5,0\n4.9,3.0,0\n6.3,3.3,1\n", {.classes = 2}, "FILE");
  EXPECT_EQ(pandas.samples->size(), 3);
  EXPECT_EQ(pandas.columns, (std::vector<std::string>{"0", "1"}));
  EXPECT_TRUE(says(pandas.notes.at(0), "line 1 ('0', '1', '2') is taken for the names of the columns"));
  EXPECT_EQ(rows_of("850,900,950\n0.1,0.2,1\n0.3,0.1,2\n0.2,0.4,1\n"), 3) << "wavelengths";
  EXPECT_EQ(rows_of("31,33,36\n10,10,0\n20,20,9\n15,15,1\n"), 3)
      << "further than each column is wide, 10 or 9";
  EXPECT_EQ(rows_of("30,30,9\n10,10,0\n20,20,9\n15,15,1\n"), 4) << "as far as it is wide";
  EXPECT_EQ(rows_of("city,1990,2000\n1,0.2,1\n2,0.1,2\n3,0.4,1\n"), 3);
}

TEST(Csv, AFirstLineThatMayBeEitherIsRefused) {
  for (const char* text : {"0,1,2\n1,0,2\n0,2,1\n2,1,0\n",  // consecutive numbers that the columns have
                           "1,2,3\n4,5,6\n",                // too few rows to tell
                           "a,1,2\n1,1,2\n3,2,1\n2,3,2\n",  // a name among numbers
                           "9000,7000,1\n1,2,1\n2,1,0\n1,3,1\n"})  // most numbers are far away
    expect_rejected(text, {},
                    {"FILE: line 1 may contain the names of the columns ('", "or the first row (",
                     "data.header: true or false"});
  EXPECT_EQ(parse("1,2,3\n4,5,6\n", {.header = CsvHeader::absent})->size(), 2);
  EXPECT_EQ(parse("1,2,3\n4,5,6\n", {.header = CsvHeader::present})->size(), 1);
}

TEST(Csv, GapsInTheFirstRowMakeItNoHeader) {
  expect_rejected("?,2,0\n3,4,1\n", {}, {"line 1, column 1: '?' is not a number"});
  expect_rejected("red,2,0\nblue,4,1\n", {}, {"2 cells cannot be used: column 1, line 1: 'red'"});
}

TEST(Csv, AColumnWithoutANameIsTold) {
  const CsvTable table = csv_from_text(",a,kind\n0,1.5,0\n1,2.5,1\n", kThreeClasses, "FILE");
  ASSERT_EQ(table.notes.size(), 1U);
  EXPECT_TRUE(says(table.notes[0], "column 1 has no name, like the index that pandas writes"));
}

TEST(Csv, AllCellsAtFaultAreListedByColumn) {
  expect_rejected("a,b,c,kind\n1,x,2,0\n1,y,,0\n1,z,3,7\n", kThreeClasses,
                  {"FILE: 5 cells cannot be used: column 2 ('b'), line 2: 'x' is not a number (and 2 more); "
                   "column 3 ('c'), line 3 is empty; a number is needed; "
                   "column 4 ('kind'), line 4: the label 7 is not one of the 3 classes 0 … 2"});
}

TEST(Csv, LinesMayEndWithCarriageReturns) {
  const DatasetPtr data = parse("a,kind\r1,0\r2,1\r", kThreeClasses);
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(read(*data, 1).values, (std::vector<float>{2}));
  expect_rejected("a,kind\r\n1,0\r\nx,1\r\n", kThreeClasses, {"line 3, column 1 ('a')"});
}

TEST(Csv, NumbersKeepTheDigitsOfF64) {
  const DatasetPtr data = parse("time,kind\n1700000001,0\n1700000002,1\n", kThreeClasses);
  ASSERT_TRUE(data->spec().wide);
  double value = 0;
  int32_t label = -1;
  data->read(1, {}, std::as_writable_bytes(std::span(&value, 1)),
             std::as_writable_bytes(std::span(&label, 1)));
  EXPECT_EQ(value, 1700000002);
}

/// Most numbers take a shorter way than std::from_chars, which must give the same bits.
TEST(Csv, NumbersAreTheNearestOfF64) {
  std::vector<std::string> cells = {"0",
                                    "-0",
                                    "5.",
                                    ".5",
                                    "-.25",
                                    "0.1",
                                    "999999999999999",
                                    "9007199254740993",
                                    "1e3",
                                    "0.3e1",
                                    "1.5",
                                    "007",
                                    "0.000000000000001",
                                    "+2.5"};
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string digits = std::to_string(random() >> (random() % 64));
    if (random() % 4 != 0) digits.insert(random() % (digits.size() + 1), ".");
    cells.push_back((random() % 2 == 0 ? "-" : "") + digits);
  }
  for (const std::string& cell : cells) {
    double value = 1;
    if (cell == "." || cell == "-.") continue;
    ASSERT_EQ(read_cell(cell, value), "") << cell;
    ASSERT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(std::strtod(cell.c_str(), nullptr)))
        << cell;
  }
  for (const std::string cell : {".", "-", "-.", "1.2.3", "1-2", "--1"}) {
    double value = 1;
    EXPECT_TRUE(says(read_cell(cell, value), "is not a number")) << cell;
  }
  const std::string zeros(400, '0');
  for (const std::string& cell : {std::string("1e-400"), std::string("-1E-99999999999999999999"),
                                  std::string("0."), "." + zeros + "1", "0." + zeros + "1e+30"}) {
    double value = 1;
    EXPECT_EQ(read_cell(cell, value), "") << cell;
    EXPECT_EQ(value, 0) << cell;
  }
  for (const std::string& cell : {std::string("1e400"), std::string("-1E+400"), "1" + zeros,
                                  "1" + zeros + "e-30", std::string("1e99999999999999999999")}) {
    double value = 1;
    EXPECT_TRUE(says(read_cell(cell, value), "is too large for an f32 number")) << cell;
  }
}

TEST(Csv, TargetsThatF32CannotTellApartAreTold) {
  const auto notes = [](double start, double step, const CsvOptions& options = {}) {
    std::string text = "a,y\n";
    for (int i = 0; i < 100; ++i) text += fmt::format("{},{}\n", i, start + step * i);
    return fmt::format("{}", fmt::join(csv_from_text(text, options, "FILE").notes, "\n"));
  };
  EXPECT_EQ(
      notes(1.7e9, 1),
      "FILE: the targets have a standard deviation of 28.9 around 1.7e+09, where f32 numbers are 128 apart, "
      "so rounding hides how they differ; subtract a constant from them");
  for (const double start : {0.0, 1e5, -1e5}) EXPECT_EQ(notes(start, 1), "");
  EXPECT_EQ(notes(1.7e9, 1e6), "");
  EXPECT_EQ(notes(0.1, 0), "") << "a constant has nothing to lose";
  EXPECT_EQ(notes(0, 1, {.classes = 100}), "");
}

TEST(Csv, FeaturesThatF32CannotTellApartAreTold) {
  const std::string table = "a,time,kind\n1,1700000001,0\n2,1700000002,1\n";
  EXPECT_EQ(
      feature_warning(*parse(table, kThreeClasses), "FILE", "ADVICE"),
      "FILE: the numbers of a feature have a standard deviation of 0.5 around 1.7e+09, where f32 numbers are "
      "128 apart, so rounding hides how they differ; ADVICE");
  EXPECT_EQ(feature_warning(*parse("a,b,kind\n1,101,0\n2,102,1\n", kThreeClasses), "FILE", "ADVICE"), "");
}

TEST(Csv, Utf16IsRefusedAsWhatItIs) {
  for (const std::string_view start : {std::string_view("\xff\xfe"
                                                        "a\0",
                                                        4),
                                       std::string_view("\xfe\xff\0a", 4), std::string_view("a\0,\0", 4)})
    expect_rejected(std::string(start) + "y\n1,2\n", {}, {"is UTF-16, or no text; save it as UTF-8"});
}

TEST(Csv, NeedsLinesAndColumns) {
  expect_rejected("", kThreeClasses, {"no lines"});
  expect_rejected("a,kind\n", kThreeClasses, {"no lines"});
  expect_rejected("kind\n1\n", kThreeClasses, {"single column"});
  expect_error([] { open_csv("/nonexistent/table.csv", {}); }, {"/nonexistent/table.csv", "no such file"});
}

}  // namespace
}  // namespace telar::test
