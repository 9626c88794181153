#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "support/paths.h"
#include "support/picture_folder.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

const std::string kMpiJob =
    "model: {name: mlp, options: {hidden: [16]}}\n"
    "data: {source: synthetic, samples: 300, test_samples: 60, shape: [1, 6, 6], classes: 3}\n"
    "training: {epochs: 4, batch: 32}\n"
    "strategy: {name: mirrored, replicas: 1, threads: 1}\n";

class OverMpi : public testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "small.yaml", kMpiJob);
    for (const char* allowed : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
      ::setenv(allowed, "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread
    }
    if (by_mpi() &&
        std::system("mpirun --version >/dev/null 2>&1") != 0) {  // NOLINT(concurrency-mt-unsafe): one thread
      GTEST_SKIP() << "NOT TESTED: mpirun is missing";
    }
  }

  virtual bool by_mpi() const { return true; }

  /// 0 processes: this one alone, with no launcher.
  CommandResult telar(int processes, const std::string& arguments) const {
    if (processes == 0) return telar_in(folder_.path(), arguments);
    const std::string count = std::to_string(processes);
    if (by_mpi())
      return telar_in(folder_.path(), arguments, "timeout 100 mpirun -n " + count + " --oversubscribe");
    return telar_in(folder_.path(), arguments + " --workers " + count, "timeout 100");
  }

  nlohmann::json summary(const std::string& run) const {
    return nlohmann::json::parse(read_text(folder_ / run / "summary.json"));
  }

  TempFolder folder_;
};

/// Processes that mpirun starts, and those that join without it.
class Together : public OverMpi, public testing::WithParamInterface<const char*> {
 protected:
  bool by_mpi() const override { return std::string(GetParam()) == "Mpi"; }
};
INSTANTIATE_TEST_SUITE_P(Processes, Together, testing::Values("Mpi", "Peers"),
                         [](const auto& way) { return std::string(way.param); });

TEST_P(Together, ProcessesTrainLikeReplicas) {
  ASSERT_EQ(telar(0, "train small.yaml --output alone --set strategy.replicas=3").code, 0);
  const CommandResult together = telar(3, "train small.yaml --output together");
  ASSERT_EQ(together.code, 0) << together.err;
  EXPECT_TRUE(says(together.out, "epoch 4/4"));
  EXPECT_EQ(together.out.find("checkpoint: "), together.out.rfind("checkpoint: "))
      << "more than one process printed something";
  EXPECT_EQ(summary("together").at("replicas"), 3);
  EXPECT_EQ(summary("together").at("steps"), summary("alone").at("steps"));
  for (const char* key : {"train_loss", "test_loss"}) {
    EXPECT_NEAR(summary("together").at(key).get<double>(), summary("alone").at(key).get<double>(), 1e-5)
        << key;
  }
}

TEST_F(OverMpi, ATerminationOfOneProcessEndsAllWithItsCode) {
  write_text(folder_ / "stop.sh",
             "timeout 60 mpirun -n 2 --oversubscribe '" + telar_program() +
                 "' train small.yaml --output $1 --set training.epochs=100000 >out 2>err & job=$!\n"
                 "for i in $(seq 300); do [ -s $1/metrics.jsonl ] && break; sleep 0.1; done\n"
                 // Process ids may begin anew, so mpirun is not always the first of them.
                 "kill -TERM $(pgrep -f -- \"^[^ ]*/telar train .*--output $1 \" | tail -n 1); wait $job\n");
  for (const char* run : {"first", "second", "third"}) {
    const std::string line = "cd '" + folder_.path().string() + "' && bash stop.sh " + run;
    const int status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
    EXPECT_EQ(WEXITSTATUS(status), 143) << read_text(folder_ / "err");
    EXPECT_TRUE(says(read_text(folder_ / "out"), "--resume"));
  }
}

TEST_F(OverMpi, ProcessesThatCannotFindEachOtherDoNotTrainOneByOne) {
  for (const char* started : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"}) {
    const CommandResult one_of_two =
        telar_in(folder_.path(), "train small.yaml --output run", started + std::string("=2 timeout 60"));
    EXPECT_EQ(one_of_two.code, 2) << started;
    EXPECT_TRUE(says(one_of_two.err, std::string("has started 2 processes (") + started + ")"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  const CommandResult alone = telar_in(folder_.path(), "train small.yaml --output run",
                                       "SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=1 PMI_SIZE=1 timeout 60");
  EXPECT_EQ(alone.code, 0) << alone.err << "within a batch script of two tasks";
}

TEST_F(OverMpi, AVerbOfOneProcessIsNotDoneOnceByEach) {
  for (const std::string verb :
       {"compare small.yaml", "bench train", "bench scaling", "bench matmul", "predict run x.npy",
        "evaluate run", "publish small.yaml --brokers 127.0.0.1:1 --topic t", "weave script.py",
        "report run"}) {
    const CommandResult one_of_two = telar_in(folder_.path(), verb, "SLURM_STEP_NUM_TASKS=2 timeout 20");
    EXPECT_EQ(one_of_two.code, 2) << verb << one_of_two.err;
    const std::string name = verb.substr(0, verb.starts_with("bench") ? verb.size() : verb.find(' '));
    EXPECT_TRUE(says(one_of_two.err, "srun has started 2 processes (SLURM_STEP_NUM_TASKS), but 'telar " +
                                         name + "' works in one process"));
  }
  EXPECT_EQ(telar(2, "compare small.yaml --output compared").code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "compared"));
  for (const char* verb : {"devices", "show small.yaml"})
    EXPECT_EQ(telar_in(folder_.path(), verb, "SLURM_STEP_NUM_TASKS=2 timeout 20").code, 0) << verb;
}

TEST_F(OverMpi, ProgressInAFileHasNoEscapeCodes) {
  const CommandResult trained = telar_in(folder_.path(), "train small.yaml --output run",
                                         "TERM=xterm timeout 100 mpirun -n 2 --oversubscribe");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(says(trained.out, "epoch 4/4"));
  EXPECT_EQ(trained.out.find('\x1b'), std::string::npos) << trained.out;
}

TEST_P(Together, ARunResumesWithAnotherNumberOfProcesses) {
  ASSERT_EQ(telar(0, "train small.yaml --output whole --set strategy.replicas=2").code, 0);
  ASSERT_EQ(telar(2, "train small.yaml --output run --set training.epochs=2").code, 0);
  const CommandResult resumed = telar(3, "train run --resume --set training.epochs=4");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(says(resumed.out, "resuming run after step 18"));
  EXPECT_TRUE(says(telar(2, "train run --resume").out, "nothing to do in run: all 4 epochs are done"));
  EXPECT_NEAR(summary("run").at("test_loss").get<double>(), summary("whole").at("test_loss").get<double>(),
              1e-5);
}

// Each process has a part of the layers; only rank 0 writes and reads checkpoints.
TEST_P(Together, ADividedModelResumesWithTheSameBitsAndOnOneDevice) {
  const std::string wide = " --set model.options.hidden=[128]";  // layouts pad rows to blocks of up to 64
  const std::string divided =
      wide +
      R"( --set optimizer=adam --set strategy.name=tensor --set strategy.ways=2 --set 'strategy.split=["fc1=columns", "fc2=rows"]')";
  const auto model = [&](const std::string& run, const std::string& step) {
    return read_text(folder_ / run / "checkpoints" / step / "model.safetensors");
  };
  ASSERT_EQ(telar(2, "train small.yaml --output whole" + divided).code, 0);
  ASSERT_EQ(telar(2, "train small.yaml --output run --set training.epochs=2" + divided).code, 0);
  const CommandResult resumed = telar(2, "train run --resume --set training.epochs=4");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(model("run", "step-00000036"), model("whole", "step-00000036"));
  const CommandResult alone =
      telar(0, "train small.yaml --output alone --set optimizer=adam --set strategy=single" + wide);
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (const char* key : {"train_loss", "test_loss"})
    EXPECT_NEAR(summary("run").at(key).get<double>(), summary("alone").at(key).get<double>(), 1e-5) << key;
  EXPECT_LT(summary("whole").at("parameter_bytes").get<double>(),
            summary("alone").at("parameter_bytes").get<double>());
  EXPECT_EQ(telar(0, "evaluate run").code, 0) << "with two workers in one process";
  const CommandResult moved =
      telar(0, "train run --resume --set training.epochs=5 --set strategy.name=single");
  EXPECT_EQ(moved.code, 0) << moved.err;
}

// Each process has a stage, which keeps its layers, and reads whole batches.
TEST_P(Together, APipelineEqualsThatOfOneProcessAndResumesAnywhere) {
  const std::string staged =
      " --set optimizer=adam --set strategy.name=pipeline --set strategy.stages=2 --set training.clip_norm=1"
      " --set training.early_stopping.patience=100";
  const auto model = [&](const std::string& run, const std::string& step) {
    return read_text(folder_ / run / "checkpoints" / step / "model.safetensors");
  };
  ASSERT_EQ(telar(0, "train small.yaml --output inside" + staged).code, 0);
  const CommandResult whole = telar(2, "train small.yaml --output whole" + staged);
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(model("whole", "step-00000036"), model("inside", "step-00000036"));
  EXPECT_EQ(summary("whole").at("replicas"), 1);
  for (const char* key : {"train_loss", "validation_loss", "test_loss"})
    EXPECT_NEAR(summary("whole").at(key).get<double>(), summary("inside").at(key).get<double>(), 1e-5) << key;
  ASSERT_EQ(telar(2, "train small.yaml --output run --set training.epochs=2" + staged).code, 0);
  const CommandResult resumed = telar(2, "train run --resume --set training.epochs=4");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(model("run", "step-00000036"), model("whole", "step-00000036"));
  EXPECT_EQ(telar(0, "evaluate run").code, 0) << "with two stages in one process";
  const CommandResult moved =
      telar(0, "train run --resume --set training.epochs=5 --set strategy.name=single");
  EXPECT_EQ(moved.code, 0) << moved.err;
  const CommandResult back = telar(
      2, "train run --resume --set training.epochs=6 --set strategy.name=pipeline --set strategy.stages=2");
  EXPECT_EQ(back.code, 0) << back.err;
}

TEST_P(Together, StagesThatCannotBeDividedAmongProcessesAreRefusedOnce) {
  const CommandResult result =
      telar(2, "train small.yaml --set strategy.name=pipeline --set strategy.stages=3");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_TRUE(says(result.err, "strategy pipeline has 3 stages in all processes together")) << result.err;
  EXPECT_EQ(result.err.find("error: "), result.err.rfind("error: ")) << result.err;
}

TEST_P(Together, BatchAndRateGrowWithTheNumberOfWorkers) {
  const std::string scaled =
      " --set training.batch_per=worker --set schedule.scale=linear --set schedule.warmup_epochs=1 --set optimizer=sgd --set optimizer.learning_rate=0.01 --set training.batch=16";
  const CommandResult result = telar(2, "train small.yaml --output run" + scaled);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "2 workers × 16 samples: a batch of 32; learning rate 0.01 × 2 = 0.02"));
  // The run keeps its batch and learning rate, with however many processes it continues.
  const CommandResult resumed = telar(3, "train run --resume --set training.epochs=5");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(summary("run").at("steps"), 5 * 9);
}

/// Two processes that see different folders of images: each has its own working directory.
class OverMpiWithTwoViews : public OverMpi {
 protected:
  void SetUp() override {
    OverMpi::SetUp();
    for (const char* rank : {"0", "1"}) write_text(folder_ / rank / "job.yaml", kImageJob);
  }

  CommandResult train() const {
    const std::string verb = " train job.yaml --output ../run";
    return telar_in(folder_.path(), verb + " : -n 1 -wdir \"$PWD/1\" '" + telar_program() + "'" + verb,
                    "timeout 100 mpirun --oversubscribe -n 1 -wdir \"$PWD/0\"");
  }

  static constexpr const char* kImageJob =
      "model: {name: mlp, options: {hidden: [4]}}\n"
      "data: {source: images, path: pictures, shape: [3, 8, 8], validation: 0.2, on_error: skip}\n"
      "training: {epochs: 2, batch: 4}\n"
      "strategy: {name: mirrored, replicas: 1, threads: 1}\n";
  PictureFolder first_{folder_ / "0/pictures"};
  PictureFolder second_{folder_ / "1/pictures"};
};

TEST_F(OverMpiWithTwoViews, RankZeroDecidesWhatIsLeftOut) {
  for (const int i : {0, 1, 2, 3, 4, 5, 10, 11}) first_.damage_inside(i);
  const CommandResult result = train();
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(summary("run").at("left_out_samples"), 8);
  const CommandResult alone =
      telar_in(folder_ / "0", "train job.yaml --output ../alone --set strategy.replicas=2");
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(summary("run").at("steps"), summary("alone").at("steps"));
  EXPECT_NEAR(summary("run").at("train_loss").get<double>(), summary("alone").at("train_loss").get<double>(),
              1e-5)
      << "rank 1 used other samples";
}

TEST_F(OverMpiWithTwoViews, ProcessesWithOtherFilesAreRefused) {
  std::filesystem::remove(second_.file(4));
  const CommandResult result = train();
  EXPECT_EQ(result.code, 2);
  EXPECT_TRUE(says(result.err, "rank 1 on "));
  EXPECT_TRUE(says(result.err, "has other data than rank 0: "));
  EXPECT_TRUE(says(result.err, "files of data.path/cats: 10 at rank 0, 9 here"));
}

TEST_F(OverMpi, BenchCommComparesWithMpi) {
  const CommandResult result = telar(2, "bench comm --mb 1 --seconds 0.01 --workload mlp32 --json comm.json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "MPI_Allreduce between 2 processes takes"));
  const auto json = nlohmann::json::parse(read_text(folder_ / "comm.json"));
  std::vector<std::string> rows;
  for (const auto& row : json.at("rows")) {
    rows.push_back(row.at("what").get<std::string>() + ", " + row.at("by").get<std::string>());
    EXPECT_GE(row.at("median_ms"), row.at("min_ms")) << rows.back();
    EXPECT_GT(row.at("min_ms"), 0) << rows.back();
  }
  for (const char* row :
       {"reduce-scatter, 2 threads", "all-reduce, 2 threads", "MPI_Allreduce, 2 processes",
        "all-reduce, 2 processes", "step, 32 samples each, 1 thread",
        "step, 32 samples each, 2 replicas × 1 thread", "step, 32 samples each, 2 processes × 1 thread",
        "step, batch 64 in 8 micro-batches, 2 stages × 1 thread"})
    EXPECT_EQ(std::ranges::count(rows, row), 1) << row;
}

TEST_F(OverMpi, BenchCommWithoutStepsMeasuresOnlySums) {
  const CommandResult result = telar(2, "bench comm --no-steps --mb 1 --seconds 0.01");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "MPI_Allreduce between 2 processes takes"));
  EXPECT_FALSE(says(result.out, "step")) << result.out;
}

TEST_P(Together, AMistakeIsReportedOnceWithExitCodeTwo) {
  for (const std::string mistake :
       {"train small.yaml --set training.batch=0", "train small.yaml --set strategy=single",
        "train nowhere.yaml", "bench comm --workload nothing --mb 1 --seconds 0.01"}) {
    if (!by_mpi() && mistake.starts_with("bench")) continue;
    const CommandResult result = telar(2, mistake);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_NE(result.err.find("error: "), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("error: "), result.err.rfind("error: ")) << result.err;
  }
}

TEST_F(OverMpi, AnUnresponsiveProcessEndsTheOthersAndIsNamed) {
  // Rank 1 stops itself after a second of training. The test lasts longer than the 20 s of silence after
  // which a process is lost.
  write_text(folder_ / "rank.sh",
             "if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then (sleep 1; kill -STOP $$) & fi\nexec \"$@\"\n");
  const CommandResult result =
      telar_in(folder_.path(), "train small.yaml --output run --set training.epochs=1000000",
               "timeout 60 mpirun -n 2 --oversubscribe sh rank.sh");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_TRUE(says(result.err, "the process of rank 1 (")) << result.err;
  EXPECT_TRUE(says(result.err, "has not answered for 20 s"));
}

}  // namespace
}  // namespace telar::test
