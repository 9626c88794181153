#include "telar/train/job_draft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "io/temp_folder.h"
#include "support/sentences.h"
#include "telar/train/job_reader.h"

namespace telar {
namespace {

using test::expect_error;
using test::says;

class JobDrafting : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static Job job_in(const JobDraft& draft) { return parse_job(draft.text, "draft.yaml"); }

  test::TempFolder folder_;
};

std::string rows(int count, const std::function<std::string(int)>& row) {
  std::string text;
  for (int i = 0; i < count; ++i) text += row(i) + "\n";
  return text;
}

TEST_F(JobDrafting, SaysAllProblemsOfATableAtOnce) {
  const std::string path =
      file("t.csv", "id;day;weight;target;note\n" + rows(30, [](int i) {
                      return std::to_string(i) + ";0" + std::to_string(1 + i % 9) + "/02/2026;" +
                             (i == 7 ? "heavy" : std::to_string(i) + ".5") + ";" +
                             (i == 9 ? "" : std::to_string(i % 2)) + ";x" + (i == 4 ? ";y" : "");
                    }));
  const JobDraft draft = draft_job(path, "");
  const auto told = [&](std::string_view part) {
    return std::ranges::any_of(
        draft.problems, [&](const std::string& problem) { return problem.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(told("1 lines, the first of them line 6, have another number of cells than the 5 of line 1"));
  EXPECT_TRUE(told("may be date_dmy or date_mdy; say which in data.kinds; date_dmy is taken"));
  EXPECT_TRUE(told("line 9: 'heavy' is not a number"));
  EXPECT_TRUE(told("1 rows have no label"));
  EXPECT_TRUE(told("the label is taken to be 'target', by its name"));
  const Job job = job_in(draft);
  EXPECT_EQ(job.data.options.text("separator"), "semicolon");
  EXPECT_EQ(job.data.options.text("label"), "target");
  EXPECT_EQ(job.data.options.texts("drop"), std::vector<std::string>{"id"});
  EXPECT_EQ(job.data.options.texts("kinds"), (std::vector<std::string>{"day: date_dmy", "weight: category"}));
}

TEST_F(JobDrafting, TellsClassesFromNumbers) {
  const auto row = [](int i) {
    return std::to_string(i % 7) + "," + std::to_string(i % 3) + "," + std::to_string(i) + ".25";
  };
  const std::string path = file("t.csv", "a,b,c\n" + rows(60, row));
  const Job classes = job_in(draft_job(path, "b"));
  EXPECT_EQ(classes.data.options.integer("classes"), 3);
  EXPECT_EQ(classes.data.split, "stratified");
  EXPECT_EQ(classes.training.metrics, std::vector<std::string>{"f1"});
  EXPECT_FALSE(classes.loss.balanced);
  const Job numbers = job_in(draft_job(path, "c"));
  EXPECT_EQ(numbers.data.options.integer("classes"), 0);
  EXPECT_EQ(numbers.data.split, "random");
  EXPECT_EQ(numbers.training.metrics, (std::vector<std::string>{"mae", "r2"}));
  const std::string rare =
      file("rare.csv",
           "a,b\n" + rows(60, [](int i) { return std::to_string(i) + (i % 9 == 0 ? ",yes" : ",no"); }));
  EXPECT_TRUE(job_in(draft_job(rare, "")).loss.balanced);
}

TEST_F(JobDrafting, SaysWhatNoModelCanLearn) {
  const auto last_problem = [&](const std::function<std::string(int)>& label) {
    const auto row = [&](int i) { return std::to_string(i % 7) + "," + label(i); };
    return draft_job(file("t.csv", "a,y\n" + rows(30, row)), "").problems.back();
  };
  EXPECT_EQ(last_problem([](int) { return "cat"; }), "all rows have the same label");
  EXPECT_EQ(last_problem([](int) { return "0"; }), "all rows have the same label");
  EXPECT_TRUE(
      says(last_problem([](int i) { return "Ann " + std::to_string(i); }), "each row has another label"));
}

TEST_F(JobDrafting, LeavesOutTheIndexThatPandasWrites) {
  const auto row = [](int i) { return std::to_string(i) + "," + std::to_string(i % 7) + ",0.5"; };
  const Job job = job_in(draft_job(file("t.csv", ",a,b\n" + rows(30, row)), ""));
  EXPECT_EQ(job.data.options.texts("drop"), std::vector<std::string>{""});
  const std::string nameless = draft_job(file("u.csv", rows(30, row)), "").text;
  EXPECT_EQ(nameless.find("drop"), std::string::npos) << nameless;
}

TEST_F(JobDrafting, HintsAtGroupsAndTimes) {
  const JobDraft draft =
      draft_job(file("t.csv", "patient_id,day,y\n" + rows(30,
                                                          [](int i) {
                                                            return std::to_string(i / 3) + ",2026-01-" +
                                                                   std::to_string(10 + i % 15) + "," +
                                                                   std::to_string(i % 2);
                                                          })),
                "");
  EXPECT_TRUE(says(draft.text, "# split: group with split_column: patient_id"));
  EXPECT_TRUE(says(draft.text, "# split: time with split_column: day"));
}

TEST_F(JobDrafting, LooksAtPictures) {
  // 2 × 3 pixels of grey and of colour, as portable formats that need no library: BMP with 24 bits.
  const auto bitmap = [](char blue) {
    std::string file("BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x03\0\0\0\x02\0\0\0\x01\0\x18\0", 30);
    file += std::string(24, '\0');
    for (int row = 0; row < 2; ++row) {
      for (int x = 0; x < 3; ++x) file += {blue, 'a', 'a'};
      file += std::string(3, '\0');
    }
    return file;
  };
  for (const char* kind : {"cat", "dog"}) {
    std::filesystem::create_directories(folder_ / "photos" / kind);
    for (const char* name : {"1.bmp", "2.bmp"})
      std::ofstream(folder_ / "photos" / kind / name, std::ios::binary) << bitmap(kind[0] == 'c' ? 'a' : 'z');
  }
  const Job job = job_in(draft_job(folder_ / "photos", ""));
  EXPECT_EQ(job.data.options.integers("shape"), (std::vector<int64_t>{3, 2, 3}));
  EXPECT_EQ(job.model.name, "convnet");
  EXPECT_EQ(job.data.split, "stratified");
  expect_error([&] { draft_job(folder_ / "photos", "x"); }, {"--label", "folder of images"});
}

TEST_F(JobDrafting, RefusesWhatItCannotRead) {
  expect_error([&] { draft_job(folder_ / "absent.csv", ""); }, {"there is no such file or folder"});
  expect_error([&] { draft_job(file("x.bin", std::string("\x93NUMPY\0\1", 8)), ""); },
               {"x.bin is not a table as text or"});
  expect_error([&] { draft_job(file("one.csv", "1\n2\n"), ""); }, {"one.csv: has a single column"});
  expect_error([&] { draft_job(file("none.csv", ""), ""); }, {"none.csv: is empty"});
  expect_error([&] { draft_job(file("t.csv", "size,y\n1,2\n"), "sise"); },
               {"no column 'sise'; did you mean 'size'?"});
}

}  // namespace
}  // namespace telar
