#include <gtest/gtest.h>

#include <fstream>

#include "io/temp_folder.h"
#include "support/paths.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/train/job_checks.h"
#include "telar/train/job_keys.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"
#include "telar/train/layer_types.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

const std::string kSmall = "model: mlp\ndata: synthetic\n";

/// The error message of parsing this text; empty if it is valid.
std::string mistake(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return sentence_of([&] { parse_job(text, "job.yaml", overrides); });
}

struct WrongJob {
  std::string text;
  std::vector<std::string> parts;  ///< of the error message
};

TEST(Job, MistakesNameTheLineTheKeyAndTheValidForm) {
  const std::vector<WrongJob> wrong = {
      {"", {"job.yaml", "a job is a group of keys"}},
      {"data: synthetic\n", {"job.yaml", "no 'model'"}},
      {"model: mlp\n", {"job.yaml", "needs 'data.source'", "fashion-mnist"}},
      {kSmall + "training:\n  bacth: 3\n",
       {"job.yaml:4", "unknown key 'training.bacth'", "'training.batch'"}},
      {kSmall + "epochs: 3\n", {"job.yaml:3", "unknown key 'epochs'", "'training.epochs'"}},
      {kSmall + "trainig:\n  batch: 3\n", {"job.yaml:3", "unknown key 'trainig'", "'training'"}},
      {kSmall + "training:\n  batch: 0\n", {"job.yaml:4", "training.batch is '0'", "an integer, at least 1"}},
      {kSmall + "training:\n  batch: 1.5\n", {"job.yaml:4", "training.batch is '1.5'", "an integer"}},
      {kSmall + "training:\n  batch: '32'\n", {"job.yaml:4", "the text '32'", "an integer"}},
      {kSmall + "training:\n  batch: [1, 2]\n", {"job.yaml:4", "training.batch is a list"}},
      {kSmall + "training:\n  batch:\n", {"job.yaml:4", "training.batch has no value"}},
      {kSmall + "training: 5\n", {"job.yaml:3", "training is '5'", "a group of keys"}},
      {kSmall + "training:\n  label_smoothing: 1\n", {"job.yaml:4", "at least 0 and below 1"}},
      {kSmall + "training:\n  clip_norm: nan\n", {"job.yaml:4", "training.clip_norm is 'nan'"}},
      {kSmall + "training:\n  precision: bf61\n", {"job.yaml:4", "f32, tf32 or bf16", "did you mean 'bf16'"}},
      {kSmall + "training: {precision: bf16, convolution: winograd}\n",
       {"job.yaml:3", "winograd, which requires f32", "bf16"}},
      {kSmall + "training:\n  epochs: 3\n  epochs: 4\n",
       {"job.yaml:5", "'epochs'", "given twice", "job.yaml:4"}},
      {kSmall + "output:\n  tensorboard: 3\n", {"job.yaml:4", "true or false"}},
      {kSmall + "strategy: mirored\n",
       {"job.yaml:3", "strategy.name is 'mirored'", "did you mean 'mirrored'"}},
      {kSmall + "strategy: {name: mirrored, replicas: 0}\n",
       {"job.yaml:3", "strategy.replicas is '0'", "at least 1"}},
      {kSmall + "strategy: {replicas: 4}\n",
       {"job.yaml:3", "strategy.replicas is for strategy.name mirrored", "single"}},
      {kSmall + "strategy: {name: mirrored, replicas: 3, threads: [1, 1]}\n",
       {"job.yaml:3", "2 numbers", "3 replicas"}},
      {kSmall + "strategy: {name: mirrored, shares: [1]}\n", {"job.yaml:3", "strategy.shares", "2 replicas"}},
      {kSmall + "strategy: {name: mirrored, shares: fair}\n",
       {"job.yaml:3", "auto, equal, measured, or a list"}},
      {kSmall + "optimizer: {name: sgd, beta1: 0.5}\n",
       {"optimizer.beta1 is for optimizer.name adam or adamw", "sgd"}},
      {kSmall + "optimizer: {lr_decay: 0.1}\n", {"optimizer.lr_decay is for optimizer.name adagrad", "adam"}},
      {"model: mpl\ndata: synthetic\n", {"job.yaml:1", "model.name is 'mpl'", "did you mean 'mlp'"}},
      {kSmall + "schedule: {scale: linear}\n",
       {"job.yaml:3", "schedule.scale is linear", "training.batch_per", "worker"}},
      {"model: {name: mlp, options: {hiden: [3]}}\ndata: synthetic\n",
       {"job.yaml:1", "hiden", "did you mean 'hidden'"}},
      {"model: {nmae: mlp}\ndata: synthetic\n", {"job.yaml:1", "unknown key 'model.nmae'", "'model.name'"}},
      {"model: mlp\ndata: fashion-mnits\n", {"job.yaml:2", "did you mean 'fashion-mnist'"}},
      {"model: mlp\ndata: {source: csv}\n", {"job.yaml:2", "csv needs 'data.path'"}},
      {"model: mlp\ndata: {source: csv, path: a.csv, samples: 3}\n",
       {"job.yaml:2", "data.samples is for data.source"}},
      {kSmall + "schedule: {name: cosine, warmup_epochs: 10}\n", {"job.yaml:3", "warm-up of 10 epochs"}},
      {"model: mlp\ndata: {source: synthetic, validation: 0}\ntraining: {early_stopping: {patience: 2}}\n",
       {"job.yaml:3", "early stopping", "data.validation is 0"}},
      {"model: mlp\ndata: {source: synthetic, validation: 0}\nschedule: plateau\n",
       {"job.yaml:3", "needs validation samples"}},
      {kSmall + "schedule: {name: plateau, gamma: 1.5}\n", {"job.yaml:3", "must be below 1"}},
      {kSmall + "schedule: {name: plateau, minimum: 2}\n", {"job.yaml:3", "above the learning rate"}},
      {kSmall + "schedule: plateau\nstrategy: downpour\n", {"job.yaml:3", "choose another schedule"}},
      {"model: [mlp\n", {"job.yaml", "not valid YAML"}},
      {"model: mlp\n\tdata: synthetic\n", {"job.yaml:2", "not valid YAML"}},
      {kSmall + "---\nmodel: mlp\n", {"job.yaml:3", "more text follows"}},
      // yaml-cpp finds an endless number of documents in this text.
      {",", {"job.yaml:1", "more text follows"}},
  };
  for (const WrongJob& job : wrong) {
    const std::string sentence = mistake(job.text);
    EXPECT_NE(sentence, "") << job.text;
    for (const std::string& part : job.parts) EXPECT_TRUE(says(sentence, part)) << job.text;
  }
}

TEST(Job, AFileThatIsNoJobIsNotPrintedWhole) {
  std::string table = "a,b,label\n";
  for (int row = 0; row < 1000; ++row) table += "1,2,0\n";
  const std::string refused = sentence_of([&] { parse_job(table, "data.csv"); });
  EXPECT_TRUE(says(refused, "data.csv: a job is a group of keys")) << refused;
  EXPECT_TRUE(says(refused, "'a,b,label 1,2,0"));
  EXPECT_LT(refused.size(), 200U);
}

TEST(Job, DataInThePlaceOfAJobIsAnsweredByAJobForIt) {
  const test::TempFolder folder;
  std::filesystem::create_directory(folder / "cat and dog");
  for (const char* name : {"a table.csv", "t.tsv", "x.npy", "x.safetensors", "cat and dog"}) {
    const std::filesystem::path path = folder / name;
    if (!std::filesystem::is_directory(path)) test::write_text(path, "a,b,label\n1,2,0\n");
    const std::string refused = sentence_of([&] { read_job(path, {}); });
    EXPECT_TRUE(says(refused, path.string() + " is no job"));
    const Job job = parse_job(refused.substr(refused.find('\n') + 1), "job.yaml");
    EXPECT_EQ(job.data.options.text("path"), path.string());
  }
}

TEST(Job, HasDefaultsForEverythingButModelAndData) {
  const Job job = parse_job(kSmall, "job.yaml");
  EXPECT_EQ(job.model.name, "mlp");
  EXPECT_EQ(job.optimizer.name, "adam");
  EXPECT_EQ(job.optimizer.learning_rate, 0.001);
  EXPECT_EQ(job.strategy.name, "single");
  EXPECT_EQ(parse_job(kSmall + "optimizer: sgd\n", "job.yaml").optimizer.learning_rate, 0.01);
}

TEST(Job, EachOptimizerHasItsOwnDefaults) {
  const auto of = [](const std::string& optimizer) {
    return parse_job(kSmall + "optimizer: " + optimizer + "\n", "job.yaml").optimizer;
  };
  EXPECT_EQ(of("adagrad").learning_rate, 0.01);
  EXPECT_EQ(of("adagrad").epsilon, 1e-10);
  EXPECT_EQ(of("{name: adagrad, epsilon: 1e-3}").epsilon, 1e-3);
  for (const std::string name : {"adam", "adamw", "rmsprop"}) EXPECT_EQ(of(name).epsilon, 1e-8) << name;
}

TEST(Job, AdagradsKeysAffectItsUpdate) {
  const Job job = parse_job(
      kSmall + "optimizer: {name: adagrad, lr_decay: 0.25, weight_decay: 0.5, epsilon: 1e-3}\n", "job.yaml");
  const StepOptions options = job_step_options(job, {.features = {1, 28, 28}, .classes = 10});
  const auto& adagrad = std::get<AdagradOptions>(options.optimizer);
  EXPECT_EQ(adagrad.lr_decay, 0.25);
  EXPECT_EQ(adagrad.weight_decay, 0.5);
  EXPECT_EQ(adagrad.epsilon, 1e-3);
}

TEST(Job, OverridesAnyKeyBeforeItIsChecked) {
  const Job job = parse_job(kSmall + "training: {batch: 0}\n", "job.yaml",
                            {"training.batch=16", "strategy=mirrored", "strategy.threads=[2, 1]",
                             "model.options.hidden=[8, 4]", "training.early_stopping.patience=3"});
  EXPECT_EQ(job.training.batch, 16);
  EXPECT_EQ(job.strategy.name, "mirrored");
  EXPECT_EQ(job.strategy.threads, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(job.model.options.integers("hidden"), (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(job.training.early_stopping_patience, 3);
}

TEST(Job, MistakesInOverridesNameTheOverride) {
  EXPECT_TRUE(says(mistake(kSmall, {"training.batch=0"}), "--set training.batch=0: training.batch is '0'"));
  EXPECT_TRUE(
      says(mistake(kSmall, {"training.bach=1"}), "--set training.bach=1: unknown key 'training.bach'"));
  EXPECT_TRUE(says(mistake(kSmall, {"training.batch"}), "an override must have the form KEY=VALUE"));
  EXPECT_TRUE(says(mistake(kSmall, {"training..batch=1"}), "an empty name"));
  EXPECT_TRUE(says(mistake(kSmall, {"training.batch.size=1"}), "must be an integer"));
}

TEST(Job, ReportsADeviceWithoutANumber) {
  const std::string lacks = "the device 'cuda:' lacks its number, as in cuda:0";
  for (const std::string text : {"cuda:", "'cuda:'", "[cuda:]", "[cpu, cuda:]"})
    EXPECT_TRUE(says(mistake(kSmall, {"device=" + text}), "--set device=" + text + ": " + lacks));
  EXPECT_TRUE(says(mistake(kSmall + "strategy: {devices: [cuda:, cpu]}\n"), "job.yaml:3: " + lacks));
  EXPECT_TRUE(says(mistake(kSmall + "device: cuda:\n"), "job.yaml:3: not valid YAML: illegal map value; "));
  EXPECT_TRUE(says(mistake(kSmall + "device: cuda:\n"), "cuda:0, not cuda:"));
  EXPECT_TRUE(says(mistake(kSmall, {"device=cpu:"}), "no device 'cpu:'"));
  EXPECT_TRUE(says(mistake(kSmall, {"device={cuda: 1, cpu: 2}"}), "strategy.devices is a group of keys"));
}

TEST(Job, AnOverrideDiscardsTheKeysOfTheFormerChoice) {
  const Job job =
      parse_job(kSmall + "optimizer: {name: adam, beta1: 0.8}\nstrategy: {name: mirrored, replicas: 4}\n",
                "job.yaml", {"optimizer.name=sgd", "strategy.name=single"});
  EXPECT_EQ(job.optimizer.name, "sgd");
  EXPECT_EQ(job.strategy.name, "single");
  EXPECT_TRUE(says(mistake(kSmall, {"optimizer.name=sgd", "optimizer.beta1=0.5"}), "optimizer.beta1 is for"));
}

TEST(Job, IsWrittenInFullAndReadsBackAsTheSameJob) {
  const std::string text =
      "name: 'a, (b)'\n"
      "model:\n  layers:\n    - {type: flatten}\n    - {type: linear, features: 10, name: out}\n"
      "data: {source: csv, path: \"weird \\\" name.csv\", separator: semicolon, mean: [0.1, -1e-7], std: [1, 2]}\n"
      "optimizer: {name: rmsprop, learning_rate: 1e-4}\n"
      "strategy: {name: mirrored, shares: [1, 2.5], threads: [1, 3]}\n";
  const Job job = parse_job(text, "job.yaml");
  const std::string written = job_text(job);
  EXPECT_EQ(job_text(parse_job(written, "written.yaml")), written);
  EXPECT_TRUE(says(written, "  learning_rate: 0.0001\n"));
  EXPECT_TRUE(says(written, "  early_stopping:\n    metric: loss\n    patience: 0\n"));
  EXPECT_TRUE(says(written, "  shares: [1, 2.5]\n"));
  EXPECT_TRUE(says(written, "type: linear, inputs: [flatten1], bias: true, features: 10"));
  EXPECT_EQ(parse_job(written, "written.yaml").data.options.text("path"), "weird \" name.csv");
}

TEST(Job, RefusesTextThatIsTooDeepOrTooLarge) {
  EXPECT_TRUE(says(mistake(kSmall + "training: " + std::string(200, '[') + std::string(200, ']') + "\n"),
                   "levels deep"));
  std::string bomb = kSmall + "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (char c = 'b'; c < 'j'; ++c) {
    const std::string before(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [*" + before;
    for (int i = 0; i < 9; ++i) bomb += ", *" + before;
    bomb += "]\n";
  }
  EXPECT_TRUE(says(mistake(bomb), "more than 100000 values"));
}

TEST(Job, NamesThatAreNotOnePartOfAPathAreRefused) {
  for (const std::string name : {"../../x", "/tmp/x", "a/b", "..", ".hidden", "-x", "\"a\\nb\"", "\"x \""})
    EXPECT_TRUE(says(mistake(kSmall + "name: " + name + "\n"), "job.yaml:3: name is ")) << name;
  EXPECT_TRUE(says(mistake(kSmall + "name: " + std::string(101, 'x') + "\n"), "at most 100 letters"));
  for (const std::string name : {"mnist", "año 2", "lr=0.1,batch=32", "_x", "3"})
    EXPECT_EQ(parse_job(kSmall + "name: " + name + "\n", "job.yaml").name, name);
}

TEST(Job, AJobWithoutANameIsNamedAfterItsFile) {
  EXPECT_EQ(run_name_of("jobs/mnist.yaml"), "mnist");
  EXPECT_EQ(run_name_of("a:b*.yaml"), "a_b_");
  EXPECT_EQ(run_name_of("-.yaml"), "_");
  EXPECT_TRUE(is_run_name(run_name_of(".yaml")));
  const std::string cut = run_name_of(std::string(99, 'x') + "ñandú.yaml");
  EXPECT_EQ(cut, std::string(99, 'x')) << "not within a character";
}

TEST(Job, NumbersThatDoNotFitAreNamed) {
  EXPECT_TRUE(says(mistake(kSmall, {"training.epochs=99999999999999999999"}), ", that 64 bits can hold"));
  // A rate of less than f32 can hold would train nothing. 1e-45 has one bit of it left.
  for (const char* rate : {"1e400", "1e-400", "1e-320", "1e-45"})
    EXPECT_TRUE(says(mistake(kSmall + "optimizer: {learning_rate: " + rate + "}\n"),
                     "at most 1000000, that f32 can hold: 0, or from 1.18e-38"));
  EXPECT_EQ(parse_job(kSmall + "optimizer: {learning_rate: 1.2e-38}\n", "job.yaml").optimizer.learning_rate,
            1.2e-38);
  EXPECT_TRUE(says(mistake(kSmall + "loss: {class_weights: [1, 1e-320]}\n"), "that f32 can hold"));
  EXPECT_TRUE(says(mistake(kSmall, {"strategy=parameter_averaging", "strategy.outer_momentum=1e-320"}),
                   "that f32 can hold"));
}

TEST(Job, AnExplicitZeroIsNotADefault) {
  EXPECT_TRUE(says(mistake(kSmall + "optimizer: {learning_rate: 0}\n"),
                   "learning_rate is '0'; it must be a number, above 0"));
  EXPECT_TRUE(
      says(mistake(kSmall + "optimizer: {epsilon: 0}\n"), "epsilon is '0'; it must be a number, above 0"));
  const std::string scaled =
      kSmall + "training: {batch_per: worker}\nschedule: {scale: linear, warmup_epochs: 1";
  EXPECT_EQ(parse_job(scaled + ", warmup_rate: 0}\n", "job.yaml").schedule.warmup_rate, 0);
  const Job without = parse_job(scaled + "}\n", "job.yaml");
  EXPECT_EQ(without.schedule.warmup_rate, without.optimizer.learning_rate);
}

TEST(Job, ExplainsWhatYamlDoesNotTake) {
  EXPECT_TRUE(says(mistake(kSmall + "training:\n\tepochs: 3\n"), "line 4 is indented with a tab"));
  EXPECT_TRUE(
      says(mistake(kSmall + "training:\n  \tepochs: 3\n  batch: 2\n"), "line 4 is indented with a tab"));
  EXPECT_TRUE(says(mistake(kSmall + "name: a: b\n"), "a value that contains ': ' needs quotes"));
  EXPECT_FALSE(says(mistake(kSmall + "training: [3\n"), "cuda"));
}

TEST(Job, TextsWithAByteOfZeroAreRefused) {
  EXPECT_TRUE(says(mistake(kSmall + "output: {folder: \"a\\0b\"}\n"), "output.folder is"));
}

TEST(Job, SuggestsTheKeyThatWasProbablyMeant) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"training: {batch_size: 3}", "'training.batch'"},
      {"training: {epoch: 3}", "'training.epochs'"},
      {"training: {num_epochs: 3}", "'training.epochs'"},
      {"optimizer: {lr: 3}", "'optimizer.learning_rate'"},
      {"optimizer: {learning_rate_: 3}", "'optimizer.learning_rate'"},
      {"optimizer: {LearningRate: 3}", "'optimizer.learning_rate'"},
      {"optimizer: {rate: 3}", "'optimizer.learning_rate'"},
      {"optimiser: adam", "'optimizer'"},
      {"lr: 3", "'optimizer.learning_rate'"},
      {"batch_size: 3", "'training.batch'"},
      {"strategy: {num_workers: 3}", "'strategy.workers'"},
  };
  for (const auto& [line, key] : cases)
    EXPECT_TRUE(says(mistake(kSmall + line + "\n"), "did you mean " + key)) << line;
  EXPECT_FALSE(says(mistake(kSmall + "zq: 3\n"), "did you mean"));
}

TEST(Job, SeveralProcessesShareAJobThatNamesNoStrategy) {
  const test::TempFolder folder;
  const auto read = [&](const std::string& text, int64_t processes) {
    std::ofstream(folder / "job.yaml") << kSmall << text;
    return read_job(folder / "job.yaml", {}, processes).strategy;
  };
  EXPECT_EQ(read("", 1).name, "single");
  const StrategyJob shared = read("strategy: {min_workers: 1}", 3);
  EXPECT_EQ(shared.name, "mirrored");
  EXPECT_EQ(workers_of_process(shared, 3), 1);
  EXPECT_TRUE(says(implied_text(shared, 3), "names no strategy: 3 processes train it by mirrored"));
  EXPECT_EQ(implied_text(read("strategy: mirrored", 3), 3), "");
  const StrategyJob single = read("strategy: single", 2);
  EXPECT_EQ(single.name, "single");
  EXPECT_TRUE(says(sentence_of([&] { workers_of_process(single, 2); }), "trains in one process, not 2"));
}

TEST(Job, AnOverriddenEngineIgnoresTheKeysOfTheJobsOwn) {
  const std::string ssh = kSmall + "run: {on: ssh, hosts: [node1, \"node2:4\"], processes: 4}\n";
  EXPECT_EQ(parse_job(ssh, "job.yaml").run.hosts, (std::vector<std::string>{"node1", "node2:4"}));
  EXPECT_EQ(parse_job(ssh, "job.yaml", {"run.on=local"}).run.hosts, std::vector<std::string>());
  EXPECT_TRUE(says(mistake(kSmall + "run: {nodes: 2}\n"), "run.nodes is for run.on slurm"));
}

TEST(Job, EveryKeyAndLayerIsDocumentedAsItIs) {
  std::ifstream file(test::fixtures() + "/../../docs/job.md");
  const std::string doc{std::istreambuf_iterator<char>(file), {}};
  for (const std::string section :
       {"", "data", "loss", "optimizer", "schedule", "training", "strategy", "output", "run"}) {
    EXPECT_TRUE(says(doc, reference_table(section))) << section;
  }
  EXPECT_TRUE(says(doc, layer_reference_table()));
  for (const JobKey& key : job_keys()) EXPECT_TRUE(says(doc, "`" + key.path + "`"));
}

}  // namespace
}  // namespace telar
