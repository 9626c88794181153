#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "io/temp_folder.h"
#include "support/sentences.h"
#include "telar/train/job_reader.h"
#include "telar/train/run.h"
#include "telar/train/trained.h"

namespace telar {
namespace {

using test::read_text;
using test::says;

namespace fs = std::filesystem;

const std::vector<std::string> kCities = {"Berlin", "Paris", "Rom"};
const std::vector<std::string> kSpecies = {"cat", "dog"};

/// The same rows, once with texts, and once as numbers with the features that Telar makes of them.
void write_both(const fs::path& texts, const fs::path& numbers) {
  std::ofstream words(texts);
  std::ofstream plain(numbers);
  words << "id,city,member,size,species\n";
  plain << "rom,berlin,paris,member,size,label\n";
  for (int i = 0; i < 120; ++i) {
    const int city = (i * i) % 7 % 3;  // 0: 1/7 and 4/7 …: Rom is the most frequent
    const bool member = i % 3 == 0;
    const double size = std::round(100 * (std::sin(0.7 * i) + city)) / 100;
    const int species = size > 0.6 ? 1 : 0;
    words << "row-" << i << ',' << kCities[city] << ',' << (member ? "yes" : "no") << ',' << size << ','
          << kSpecies[species] << '\n';
    plain << (city == 2) << ',' << (city == 0) << ',' << (city == 1) << ',' << member << ',' << size << ','
          << species << '\n';
  }
}

class TableRun : public ::testing::Test {
 protected:
  TableRun() { write_both(folder_ / "texts.csv", folder_ / "numbers.csv"); }
  RunSummary run(const std::string& data, const std::string& name, const std::string& strategy = "single") {
    const Job job =
        parse_job("model: {name: mlp, options: {hidden: [8]}}\ndata: {source: csv, test: 0.2, " + data +
                      "}\ntraining: {epochs: 2, batch: 16}\n",
                  "job.yaml", {"output.folder=" + (folder_ / name).string(), "strategy=" + strategy});
    return run_job(job, {});
  }
  std::string texts() const { return "path: " + (folder_ / "texts.csv").string() + ", drop: [id]"; }

  test::TempFolder folder_;
};

TEST_F(TableRun, OfTextsIsThatOfTheNumbersThatTheyBecome) {
  const RunSummary of_texts = run(texts(), "texts");
  const Job as_run = read_job(folder_ / "texts" / "job.yaml");
  EXPECT_EQ(as_run.data.options.integer("classes"), 2);
  EXPECT_EQ(as_run.data.options.texts("class_names"), kSpecies);
  // In the order of their frequency, the features of the other table.
  const std::string first = as_run.data.options.texts("encoding").at(0);
  std::string columns = "columns: [";
  for (const char* city : {"Berlin", "Paris", "Rom"}) EXPECT_TRUE(says(first, city));
  std::vector<std::pair<size_t, std::string>> order;
  for (const auto& [city, column] : {std::pair{"Berlin", "berlin"}, {"Paris", "paris"}, {"Rom", "rom"}})
    order.emplace_back(first.find(city), column);
  std::ranges::sort(order);
  for (const auto& [place, column] : order) columns += column + ", ";
  const RunSummary of_numbers =
      run("path: " + (folder_ / "numbers.csv").string() + ", " + columns + "member, size]", "numbers");
  EXPECT_EQ(of_texts.test, of_numbers.test);
  EXPECT_EQ(of_texts.validation, of_numbers.validation);
  EXPECT_EQ(read_text(fs::path(of_texts.checkpoint) / "model.safetensors"),
            read_text(fs::path(of_numbers.checkpoint) / "model.safetensors"));
  const std::string table = read_text(folder_ / "texts" / "columns.txt");
  EXPECT_TRUE(says(table, "column  kind"));
  EXPECT_TRUE(says(table, "member  boolean"));
}

TEST_F(TableRun, IsTheSameInTwoReplicas) {
  const RunSummary single = run(texts(), "single");
  const RunSummary mirrored =
      run(texts(), "mirrored", "{name: mirrored, replicas: 2, threads: 1, shares: [1, 3]}");
  ASSERT_EQ(single.test.size(), mirrored.test.size());
  for (size_t i = 0; i < single.test.size(); ++i) EXPECT_NEAR(single.test[i], mirrored.test[i], 1e-5);
}

TEST_F(TableRun, PredictsNewTables) {
  run(texts(), "run");
  const Trained trained = load_trained(folder_ / "run", false);
  EXPECT_EQ(trained.spec.class_names, kSpecies);
  std::ofstream(folder_ / "new.csv") << "member,size,id,city\nyes,2.5,n-1,Paris\nno,-1,n-2,Atlantis\n";
  std::vector<std::string> ids;
  const DatasetPtr samples = open_inputs(trained, (folder_ / "new.csv").string(), {},
                                         [&](const auto& column) { ids = column.second; });
  EXPECT_EQ(ids, (std::vector<std::string>{"n-1", "n-2"}));
  EXPECT_EQ(predict(trained, *samples).size(), 4U);
}

// One layer without activation is linear regression; gradient descent on the whole batch reaches its
// solution. These targets are linear in the features, so the error goes to 0.
TEST_F(TableRun, LearnsSeveralTargetsAtOnce) {
  std::ofstream table(folder_ / "two.csv");
  table << "a,b,sum,difference\n";
  for (int i = 0; i < 40; ++i) {
    const double a = i * i % 7;
    const double b = i * 3 % 5;
    table << a << ',' << b << ',' << 2 * a + b + 1 << ',' << a - 3 * b << '\n';
  }
  table.close();
  const Job job = parse_job(
      "model: {layers: [{type: linear, features: 2}]}\n"
      "data: {source: csv, targets: [sum, difference], path: " +
          (folder_ / "two.csv").string() +
          "}\noptimizer: {name: sgd, learning_rate: 0.3, momentum: 0.5}\n"
          "training: {epochs: 60, batch: 40, metrics: [mae]}\n",
      "job.yaml", {"output.folder=" + (folder_ / "two").string()});
  const RunSummary summary = run_job(job, {});
  EXPECT_LT(summary.validation.at(0), 1e-4);
  const Trained trained = load_trained(folder_ / "two", false);
  std::ofstream(folder_ / "new.csv") << "b,a\n2,5\n";
  const std::vector<float> outputs =
      predict(trained, *open_inputs(trained, (folder_ / "new.csv").string(), {}));
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_NEAR(outputs[0], 13, 0.05);
  EXPECT_NEAR(outputs[1], -1, 0.05);
}

}  // namespace
}  // namespace telar
