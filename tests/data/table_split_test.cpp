#include "telar/data/tables/table_split.h"

#include <gtest/gtest.h>

#include "support/sentences.h"
#include "telar/data/tables/csv.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

std::vector<int64_t> all_but_last(int64_t rows, const SplitKeys& /*keys*/) {
  std::vector<int64_t> numbers;
  for (int64_t row = 0; row + 1 < rows; ++row) numbers.push_back(row);
  return numbers;
}

CsvTable divided(const std::string& text, SplitBy by, const std::string& column,
                 const std::vector<std::string>& kinds = {}) {
  CsvOptions options{.classes = kCountedClasses, .kinds = kinds};
  options.training_rows = all_but_last;
  options.split = by;
  options.split_column = column;
  return csv_from_text(text, options, "t.csv");
}

using Names = std::vector<std::string>;

TEST(TableSplit, GroupsAreNumberedAndNoFeatures) {
  const CsvTable table =
      divided("who,x,y\nann,1,0\nbob,2,1\nann,3,0\n7,4,1\n7.0,5,0\n", SplitBy::group, "who");
  EXPECT_EQ(table.keys, (SplitKeys{0, 1, 0, 2, 2}));
  EXPECT_EQ(table.columns, Names{"x"});
}

TEST(TableSplit, TimesAreRanksOfNumbersOrDates) {
  EXPECT_EQ(divided("x,t,y\n1,30,0\n2,5,1\n3,30,0\n4,-1,1\n", SplitBy::time, "t").keys,
            (SplitKeys{2, 1, 2, 0}));
  const CsvTable dates =
      divided("x,t,y\n1,02.01.2026,0\n2,31.12.2025,1\n3,01.02.2026,0\n4,13.01.2026,1\n", SplitBy::time, "t");
  EXPECT_EQ(dates.keys, (SplitKeys{1, 0, 3, 2}));
  EXPECT_EQ(dates.columns, (Names{"x", "t"}));  // times may be features
  // Of two orders of day and month that are possible, the job says which.
  const std::string either = "x,t,y\n1,02/01/2026,0\n2,01/03/2026,1\n3,04/01/2026,0\n";
  EXPECT_TRUE(says(sentence_of([&] { divided(either, SplitBy::time, "t"); }), "may be date_dmy or date_mdy"));
  EXPECT_EQ(divided(either, SplitBy::time, "t", {"t: date_dmy"}).keys, (SplitKeys{0, 2, 1}));
  EXPECT_EQ(divided(either, SplitBy::time, "t", {"t: date_mdy"}).keys, (SplitKeys{1, 0, 2}));
}

TEST(TableSplit, AColumnNamesParts) {
  const CsvTable table = divided("x,part,y\n1,train,0\n2,Test,1\n3,valid,0\n4,TRAIN,1\n5,validation,1\n",
                                 SplitBy::column, "part");
  EXPECT_EQ(table.keys,
            (SplitKeys{kTrainingPart, kTestPart, kValidationPart, kTrainingPart, kValidationPart}));
  EXPECT_EQ(table.columns, Names{"x"});
}

TEST(TableSplit, ClassesAreTheLabels) {
  const CsvTable table = divided("x,y\n1,dog\n2,cat\n3,dog\n4,cat\n", SplitBy::stratified, "");
  EXPECT_EQ(table.keys, (SplitKeys{1, 0, 1, 0}));
}

TEST(TableSplit, KindsAreThoseOfTheTrainingRows) {
  // With its last row, the column would be of texts that are not clear; the first ones are numbers.
  EXPECT_TRUE(says(sentence_of([] { divided("x,y\n1,0\n2,1\n3,0\nthree,1\n", SplitBy::random, ""); }),
                   "t.csv, column 1 ('x'), line 5: 'three' is not a number; a kind in data.kinds"));
  const CsvTable table = divided("x,z,y\n1,,0\n2,,1\n3,,0\n4,late,1\n", SplitBy::random, "");
  EXPECT_EQ(table.described.at(1).at(1), "left_out");
}

TEST(TableSplit, SaysWhatIsWrong) {
  const auto mistake = [](const std::string& text, SplitBy by, const std::string& column) {
    return sentence_of([&] { divided(text, by, column); });
  };
  const std::string text = "who,x,y\nann,1,0\n,2,1\nann,3,0\n";
  EXPECT_TRUE(says(mistake(text, SplitBy::group, "whom"), "which the table has not; did you mean 'who'?"));
  EXPECT_TRUE(says(mistake(text, SplitBy::group, "who"), "column 1 ('who'), line 3: is missing"));
  EXPECT_TRUE(says(mistake(text, SplitBy::group, "y"), "is the column of the label, 'y'"));
  EXPECT_TRUE(says(mistake("1,2,0\n2,3,1\n", SplitBy::group, "who"), "no header with names"));
  EXPECT_TRUE(
      says(mistake("x,who,y\n1,ann,0\n2,bob,1\n", SplitBy::time, "who"), "neither numbers nor dates"));
  EXPECT_TRUE(says(mistake("x,p,y\n1,train,0\n2,later,1\n", SplitBy::column, "p"),
                   "column 2 ('p'), row 2: 'later' is no part; train, validation and test are"));
}

}  // namespace
}  // namespace telar
