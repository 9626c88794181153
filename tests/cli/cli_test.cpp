#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "support/paths.h"
#include "support/sanitizers.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

const std::string kJob =
    "model: {name: mlp, options: {hidden: [16]}}\n"
    "data: {source: synthetic, samples: 300, test_samples: 60, shape: [1, 6, 6], classes: 3}\n"
    "training: {epochs: 4, batch: 32}\n"
    "strategy: {name: mirrored, threads: 1}\n";

class Cli : public testing::Test {
 protected:
  void SetUp() override { write_text(folder_ / "small.yaml", kJob); }
  CommandResult telar(const std::string& arguments) const { return telar_in(folder_.path(), arguments); }
  TempFolder folder_;
};

TEST_F(Cli, TrainsEvaluatesAndNumbersItsRunFolders) {
  const CommandResult trained = telar("train small.yaml --summary s.json");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(trained.err, "");
  EXPECT_TRUE(says(trained.out, "epoch 4/4"));
  EXPECT_EQ(trained.out.find('\r'), std::string::npos) << "plain lines when piped";
  const auto summary = nlohmann::json::parse(read_text(folder_ / "s.json"));
  EXPECT_EQ(summary.at("replicas"), 2);
  EXPECT_EQ(summary.at("folder"), "runs/small-1");

  const CommandResult evaluated = telar("evaluate runs/small-1 --summary e.json");
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_ / "e.json")).at("test_accuracy"),
            summary.at("test_accuracy"));
  EXPECT_EQ(telar("evaluate runs/small-1/checkpoints/step-00000036").out, evaluated.out);

  EXPECT_EQ(telar("train small.yaml").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "runs" / "small-2" / "summary.json"));
}

TEST_F(Cli, QuietPrintsNothing) {
  const CommandResult trained = telar("train small.yaml --quiet --output here");
  EXPECT_EQ(trained.code, 0);
  EXPECT_EQ(trained.out + trained.err, "");
  EXPECT_TRUE(fs::exists(folder_ / "here" / "summary.json"));
}

TEST_F(Cli, CheckTrainsNothing) {
  const CommandResult checked = telar("train small.yaml --check");
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_TRUE(says(checked.out, "small.yaml is valid\nsamples: "));
  EXPECT_TRUE(says(checked.out, "\nmemory: "));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  EXPECT_EQ(telar("train small.yaml --check --set model=alexnet").code, 2);
}

TEST_F(Cli, EveryExampleIsValid) {
  int examples = 0;
  for (const auto& entry : fs::directory_iterator(fixtures() + "/../../examples")) {
    if (entry.path().extension() != ".yaml") continue;
    // The example of a stream needs a broker; tests/stream runs such jobs.
    const bool streams = says(read_text(entry.path()), "source: kafka");
    if (streams && kThreadSanitized) continue;
    const CommandResult checked = telar("train '" + fs::absolute(entry.path()).string() + "' --check");
    EXPECT_TRUE(checked.code == 0 || (streams && says(checked.err, "no broker at "))) << checked.err;
    ++examples;
  }
  EXPECT_GE(examples, 5);
}

TEST_F(Cli, EveryHelpTextHasAnExample) {
  for (const char* verb : {"", "train ", "evaluate ", "predict ", "devices ", "show ", "weave "}) {
    const CommandResult help = telar(std::string(verb) + "--help");
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(says(help.out, "Example"));
    EXPECT_TRUE(says(help.out, std::string("telar ") + verb));
  }
}

TEST_F(Cli, PrintsItsVersionAndCommit) {
  const CommandResult version = telar("--version");
  EXPECT_EQ(version.code, 0) << version.err;
  EXPECT_TRUE(version.out.starts_with("telar 0.") && version.out.ends_with(")\n")) << version.out;
}

TEST_F(Cli, HelpAndVersionAreAlsoVerbs) {
  EXPECT_EQ(telar("version").out, telar("--version").out);
  EXPECT_EQ(telar("help").out, telar("--help").out);
  const CommandResult help = telar("help bench scaling");
  EXPECT_EQ(help.code, 0) << help.err;
  EXPECT_EQ(help.out, telar("bench scaling --help").out);
}

TEST_F(Cli, UnknownVerbsAndOptionsAreNamed) {
  const auto error_of = [this](const std::string& arguments) {
    const CommandResult refused = telar(arguments);
    EXPECT_EQ(refused.code, 2) << arguments;
    return refused.err;
  };
  EXPECT_TRUE(says(error_of("trian small.yaml"), "telar has no verb 'trian'; did you mean train?"));
  EXPECT_TRUE(says(error_of("help trian"), "telar has no verb 'trian'"));
  EXPECT_TRUE(says(error_of("bench matmull"), "telar bench has no verb 'matmull'; did you mean matmul?"));
  EXPECT_TRUE(says(error_of("train --resum"), "telar train has no option --resum; did you mean --resume?"));
  const std::string of_job = error_of("train small.yaml --epochs=3");
  EXPECT_TRUE(says(of_job, "telar train has no option --epochs")) << of_job;
  EXPECT_TRUE(says(of_job, "did you mean --set training.epochs=VALUE?")) << of_job;
  EXPECT_TRUE(says(error_of("train small.yaml --lr 3"), "did you mean --set optimizer.learning_rate=VALUE?"));
  EXPECT_TRUE(says(error_of("train small.yaml --learning-rate 3"), "--set optimizer.learning_rate=VALUE?"));
  EXPECT_TRUE(says(error_of("train small.yaml --set strategy.name=ddp"), "did you mean 'mirrored'?"));
  EXPECT_TRUE(says(error_of("compare small.yaml --strategies fsdp"), "did you mean 'sharded'?"));
  EXPECT_FALSE(says(error_of("report run --epochs=3"), "--set")) << "it has no keys of a job";
  EXPECT_TRUE(says(error_of("--versoin"), "telar has no option --versoin; did you mean --version?"));
  EXPECT_TRUE(says(error_of(""), "--help"));
}

/// oneDNN crashes where it gets no memory for the code of a primitive.
TEST_F(Cli, ALimitOfMemoryIsASentence) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers need more addresses";
  write_text(folder_ / "images.yaml",
             "model: lenet5\ndata: {source: synthetic, samples: 64, shape: [1, 28, 28], classes: 10}\n"
             "training: {epochs: 1, batch: 32}\noutput: {tensorboard: false}\n");
  int refused = 0;
  for (int kibibytes = 150'000; kibibytes < 400'000; kibibytes += 25'000) {
    const std::string limit = fmt::format("ulimit -v {} &&", kibibytes);
    const CommandResult run = telar_in(
        folder_.path(), fmt::format("train images.yaml --output limited-{} --quiet", kibibytes), limit);
    EXPECT_LE(run.code, 2) << limit << " " << run.err;
    if (run.code == 0) continue;
    ++refused;
    EXPECT_TRUE(says(run.err, "ulimit -v")) << run.err;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(Cli, PredictsFromTablesAndReportsMismatches) {
  std::string table = "a,b,label\n";
  for (int i = 0; i < 90; ++i) {
    table += std::to_string(i % 3) + "." + std::to_string(i % 7) + "," + std::to_string(-i % 3) + "," +
             std::to_string(i % 3) + "\n";
  }
  write_text(folder_ / "t.csv", table);
  write_text(
      folder_ / "table.yaml",
      "model: mlp\ndata: {source: csv, path: t.csv, classes: 3, test: 0.2}\ntraining: {epochs: 30, batch: 8}\n");
  ASSERT_EQ(telar("train table.yaml --quiet").code, 0);
  write_text(folder_ / "new.csv", "a,b\n0.1,0\n2.5,-2\n1.2,-1\n");
  const CommandResult predicted = telar("predict runs/table-1 new.csv --out p.csv");
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  const std::string answers = read_text(folder_ / "p.csv");
  EXPECT_TRUE(says(answers, "input,sample,class,probability\nnew.csv,0,0,"));
  EXPECT_TRUE(says(answers, "\nnew.csv,1,2,"));
  EXPECT_TRUE(says(answers, "\nnew.csv,2,1,"));
  EXPECT_EQ(predicted.err.find("warning"), std::string::npos) << predicted.err;

  write_text(folder_ / "other.csv", "label,b,id,a\n0,0,17,0.1\n2,-2,18,2.5\n1,-1,19,1.2\n");
  const CommandResult other = telar("predict runs/table-1 other.csv --out p.csv");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_TRUE(says(other.err, "warning: other.csv: the model does not take 'id'; left out"));
  EXPECT_TRUE(says(other.err, "warning: other.csv: 'label' is the label; left out"));
  std::string same = read_text(folder_ / "p.csv");
  for (size_t at = 0; (at = same.find("other.csv")) != std::string::npos;) same.replace(at, 9, "new.csv");
  EXPECT_EQ(same, answers);
  EXPECT_TRUE(says(telar("evaluate runs/table-1 --data other.csv").out, "accuracy 1.0000"));

  write_text(folder_ / "bare.csv", "0.1,0\n2.5,-2\n1.2,-1\n");
  const CommandResult bare = telar("predict runs/table-1 bare.csv");
  EXPECT_TRUE(says(bare.err, "bare.csv: has no header, so its columns are taken for 'a' and 'b'"));
  EXPECT_TRUE(says(bare.out, "bare.csv,2,1,"));

  write_text(folder_ / "wide.csv", "a,c,d\n1,2,3\n");
  for (const char* command : {"predict runs/table-1 wide.csv", "evaluate runs/table-1 --data wide.csv"}) {
    const CommandResult wide = telar(command);
    EXPECT_EQ(wide.code, 2);
    EXPECT_TRUE(says(wide.err, "wide.csv, line 1: there is no column 'b'; the table has 'a', 'c' and 'd'"));
  }
}

TEST_F(Cli, ShowsModelsAndJobs) {
  EXPECT_TRUE(says(telar("show resnet18").out, "11,689,512"));
  EXPECT_TRUE(says(telar("show small.yaml").out, "strategy: mirrored, 2 replicas"));
  EXPECT_TRUE(says(telar("show small.yaml --graph").out, "reduce_bucket"));
  EXPECT_TRUE(says(telar("show mlp --dot --sample 4 --classes 2").out, "digraph"));
  EXPECT_TRUE(says(telar("show mlp --dot --graph").err, "give one of them"));
  EXPECT_TRUE(says(telar("show mlp --dot --processes 2").err, "leave out --processes"));
  EXPECT_EQ(telar("show resnet19").code, 2);
}

TEST_F(Cli, ListsTheAvailableDevices) {
  EXPECT_TRUE(says(telar("devices").out, "cpu"));
  const auto devices = nlohmann::json::parse(telar("devices --json").out);
  EXPECT_GE(devices.at("cpu").at("available_threads"), 1);
  EXPECT_TRUE(devices.contains("gpus_not_found"));
}

TEST_F(Cli, CtrlCWritesACheckpointAndTheResumeCommand) {
  write_text(folder_ / "interrupt.sh",
             "'" + telar_program() +
                 "' train small.yaml --output run --set training.epochs=100000 >out 2>err &\n"
                 "for i in $(seq 600); do [ -s run/metrics.jsonl ] && break; sleep 0.1; done\n"
                 "kill -INT $!; wait $!; exit $?\n");
  // As in an interactive shell: a background job of a script would ignore SIGINT.
  const std::string line = "cd '" + folder_.path().string() + "' && bash -m interrupt.sh 2>/dev/null";
  const int status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(WEXITSTATUS(status), 130) << read_text(folder_ / "err");
  EXPECT_TRUE(says(read_text(folder_ / "out"), "telar train run --resume"));
  const CommandResult resumed = telar("train run --resume --set training.epochs=1 --summary s.json");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(says(resumed.out, "resuming run after step"));
}

}  // namespace
}  // namespace telar::test
