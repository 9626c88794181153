#include "telar/train/checkpoint.h"
#include "support/sentences.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/temp_folder.h"
#include "support/make_session.h"
#include "telar/core/error.h"
#include "telar/io/safetensors.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

namespace fs = std::filesystem;

std::unique_ptr<Session> session_of(const std::vector<int64_t>& hidden, uint64_t seed = 11) {
  const Model model = make_model("mlp", {{"hidden", hidden}}, {6}, 3);
  StepOptions options;
  options.batch = 8;
  options.optimizer = AdamOptions{};
  return test::make_session(model, options, {.session = {.seed = seed}});
}

void train(Session& session, int steps) {
  const test::Samples samples(8, {6}, 3);
  for (int s = 1; s <= steps; ++s) session.train(samples.view(), {0.01F, s, 0});
}

TrainingState some_state() {
  TrainingState state;
  state.epoch = 2;
  state.step_in_epoch = 2;
  state.step = 3;
  state.samples = 24;
  state.seconds = 0.1;
  state.epoch_samples = 40;
  state.epoch_sums = {1.0 / 3, 17};
  state.best = 0.1 + 0.2;
  state.best_step = 2;
  return state;
}

TrainingState state_after(int64_t step) {
  TrainingState state = some_state();
  state.step = step;
  return state;
}

void flip_last_byte(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char byte = static_cast<char>(file.get());
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(byte ^ 1));
}

TEST(Checkpoint, RestoresEveryBitOfParametersOptimizerAndPosition) {
  const test::TempFolder folder;
  const auto written = session_of({5});
  train(*written, 3);
  write_checkpoint(folder / "step-00000003", checkpoint_tensors(*written), some_state());
  const auto read = session_of({5}, 99);
  EXPECT_EQ(verify_checkpoint(folder / "step-00000003"), some_state());
  load_all(folder / "step-00000003", *read);
  for (const StateName& name : written->state_names()) {
    EXPECT_EQ(read->read_state(name), written->read_state(name)) << name.text();
  }
}

TEST(Checkpoint, WeightsHaveTheirPyTorchNamesAndShapes) {
  const test::TempFolder folder;
  write_checkpoint(folder / "step-00000000", checkpoint_tensors(*session_of({5})), {});
  const SafetensorsFile file(folder / "step-00000000" / "model.safetensors");
  EXPECT_EQ(file.entry("fc1.weight").shape, (Shape{5, 6}));
  EXPECT_EQ(file.entry("fc2.bias").shape, (Shape{3}));
  EXPECT_EQ(file.entries().size(), 4U);
}

TEST(Checkpoint, NamesADamagedFile) {
  const test::TempFolder folder;
  const fs::path path = folder / "step-00000003";
  for (const std::string name : {"model.safetensors", "optimizer.safetensors", "job.yaml"}) {
    fs::remove_all(path);
    write_checkpoint(path, checkpoint_tensors(*session_of({5})), some_state(),
                     {{"job.yaml", "model: mlp\n"}});
    flip_last_byte(path / name);
    EXPECT_TRUE(says(sentence_of([&] { verify_checkpoint(path); }), name + " has changed"));
    fs::resize_file(path / name, 3);
    EXPECT_TRUE(says(sentence_of([&] { verify_checkpoint(path); }), name + " has 3 bytes"));
    fs::remove(path / name);
    EXPECT_TRUE(says(sentence_of([&] { verify_checkpoint(path); }), name + " is missing"));
  }
  write_checkpoint(folder / "step-00000004", checkpoint_tensors(*session_of({5})), state_after(4));
  std::string text = test::read_text(folder / "step-00000004" / "state.json");
  text.replace(text.find("\"samples\": 24"), 13, "\"samples\": 25");
  test::write_text(folder / "step-00000004" / "state.json", text);
  EXPECT_TRUE(says(sentence_of([&] { verify_checkpoint(folder / "step-00000004"); }),
                   "state.json has changed since it was written"));
  fs::rename(folder / "step-00000004", folder / "step-00000005");
  EXPECT_TRUE(says(sentence_of([&] { verify_checkpoint(folder / "step-00000005"); }),
                   "step is 4; it must be 5, as the name of its folder says"));
  test::write_text(path / "state.json", "{\"epoch\": ");
  EXPECT_TRUE(says(sentence_of([&] { verify_checkpoint(path); }), "state.json"));
  fs::remove(path / "state.json");
  EXPECT_TRUE(says(sentence_of([&] { verify_checkpoint(path); }), "state.json is missing"));
}

TEST(Checkpoint, FindsTheNewestValidOneAndReportsDamagedOnes) {
  const test::TempFolder folder;
  EXPECT_FALSE(newest_checkpoint(folder.path()));
  const auto session = session_of({5});
  for (const int64_t step : {1, 9, 10}) {
    TrainingState state;
    state.step = step;
    write_checkpoint(checkpoint_path(folder.path(), step), checkpoint_tensors(*session), state);
  }
  fs::create_directory(folder / "step-00000011.tmp-1");
  EXPECT_EQ(newest_checkpoint(folder.path())->state.step, 10);
  flip_last_byte(folder / "step-00000010" / "model.safetensors");
  const auto found = newest_checkpoint(folder.path());
  EXPECT_EQ(found->state.step, 9);
  ASSERT_EQ(found->warnings.size(), 1U);
  EXPECT_TRUE(says(found->warnings[0], "step-00000010"));
  for (const std::string name : {"step-00000001", "step-00000009"})
    flip_last_byte(folder / name / "model.safetensors");
  EXPECT_TRUE(says(sentence_of([&] { newest_checkpoint(folder.path()); }), "all 3 checkpoints"));
}

TEST(Checkpoint, OfAnotherModelIsRefusedWithTheTensorsThatDiffer) {
  const test::TempFolder folder;
  write_checkpoint(folder / "step-00000000", checkpoint_tensors(*session_of({5})), {});
  const auto wider = session_of({7});
  const auto before = wider->read_state("fc1.weight");
  const std::string wide = sentence_of([&] { load_all(folder / "step-00000000", *wider); });
  EXPECT_TRUE(says(wide, "'fc1.weight' is [5, 6] in the file and [7, 6] in the model"));
  EXPECT_TRUE(says(wide, "another model"));
  EXPECT_EQ(wider->read_state("fc1.weight"), before);
  const auto deeper = session_of({5, 3});
  EXPECT_TRUE(says(sentence_of([&] { load_parameters(folder / "step-00000000", *deeper); }), "'fc3."));
}

TEST(Checkpoint, RemovesOldOnesButKeepsTheBest) {
  const test::TempFolder folder;
  const auto session = session_of({5});
  for (const int64_t step : {1, 2, 3, 4, 5})
    write_checkpoint(checkpoint_path(folder.path(), step), checkpoint_tensors(*session), {});
  remove_old_checkpoints(folder.path(), 2, 2);
  std::vector<std::string> left;
  for (const fs::path& path : list_checkpoints(folder.path())) left.push_back(path.filename().string());
  EXPECT_EQ(left, (std::vector<std::string>{"step-00000005", "step-00000004", "step-00000002"}));
}

TEST(Checkpoint, AFailedWriteLeavesNothing) {
  const test::TempFolder folder;
  test::write_text(folder / "file", "");
  EXPECT_THROW(write_checkpoint(folder / "file" / "step-00000001", checkpoint_tensors(*session_of({5})), {}),
               std::exception);
  write_checkpoint(folder / "step-00000001", checkpoint_tensors(*session_of({5})), {});
  const std::string before = test::read_text(folder / "step-00000001" / "state.json");
  EXPECT_TRUE(says(sentence_of([&] {
                     write_checkpoint(folder / "step-00000001", checkpoint_tensors(*session_of({5})),
                                      some_state());
                   }),
                   "exists already"));
  EXPECT_EQ(test::read_text(folder / "step-00000001" / "state.json"), before);
}

}  // namespace
}  // namespace telar
