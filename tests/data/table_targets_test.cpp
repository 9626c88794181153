#include <gtest/gtest.h>

#include <algorithm>

#include "support/sentences.h"
#include "telar/data/tables/csv.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

using Names = std::vector<std::string>;

std::vector<int64_t> all_of(int64_t rows, const SplitKeys& /*keys*/) {
  std::vector<int64_t> numbers(static_cast<size_t>(rows));
  for (size_t row = 0; row < numbers.size(); ++row) numbers[row] = static_cast<int64_t>(row);
  return numbers;
}

CsvOptions with_targets(const Names& targets) {
  CsvOptions options{.targets = targets, .classes = kCountedClasses};
  options.training_rows = all_of;
  return options;
}

std::vector<float> targets_of(const CsvTable& table, int64_t row) {
  std::vector<double> features(static_cast<size_t>(table.samples->spec().features.elements()));
  std::vector<float> targets(static_cast<size_t>(table.samples->spec().labels.elements()));
  table.samples->read(row, {}, std::as_writable_bytes(std::span(features)),
                      std::as_writable_bytes(std::span(targets)));
  return targets;
}

TEST(TableTargets, AreSeveralColumnsInTheirOrder) {
  const CsvTable table = csv_from_text("rent,size,city,price\n7,1,A,70\n8,2,B,80.5\n9,3,A,90\n",
                                       with_targets({"price", "rent"}), "t.csv");
  EXPECT_EQ(table.columns, (Names{"size", "city"}));
  EXPECT_EQ(table.classes, 0);
  EXPECT_EQ(table.samples->spec().labels, (Shape{2}));
  EXPECT_EQ(targets_of(table, 1), (std::vector<float>{80.5F, 8}));
  EXPECT_EQ(table.label, "");
}

TEST(TableTargets, AreFoundByNameInOtherTables) {
  CsvOptions options = with_targets({"price", "rent"});
  options.training_rows = {};
  options.columns = {"size"};
  options.use = CsvUse::test;
  const CsvTable table = csv_from_text("price,rent,size\n70,7,1\n", options, "u.csv");
  EXPECT_EQ(targets_of(table, 0), (std::vector<float>{70, 7}));
  options.use = CsvUse::predict;
  const CsvTable predicted = csv_from_text("size,rent\n1,7\n", options, "u.csv");
  EXPECT_EQ(predicted.samples->spec().features, (Shape{1}));
}

TEST(TableTargets, SayWhatIsWrong) {
  const auto mistake = [](const std::string& text, const Names& targets) {
    return sentence_of([&] { csv_from_text(text, with_targets(targets), "t.csv"); });
  };
  EXPECT_TRUE(says(mistake("a,b,c\n1,2,3\n", {"b", "d"}),
                   "data.targets has the column 'd', which the table has not"));
  EXPECT_TRUE(says(mistake("a,b,c\n1,2,3\n", {"b", "b"}), "data.targets has the column 'b' twice"));
  EXPECT_TRUE(
      says(mistake("a,b,c\n1,2,x\n", {"b", "c"}), "t.csv, column 3 ('c'), line 2: 'x' is not a number"));
  EXPECT_TRUE(
      says(mistake("a,b,c\n1,2,3\n2,,3\n", {"b", "c"}), "column 2 ('b'), line 3: the label is missing"));
}

}  // namespace
}  // namespace telar
