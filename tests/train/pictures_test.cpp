#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "io/temp_folder.h"
#include "support/npy_file.h"
#include "support/paths.h"
#include "support/picture_folder.h"
#include "support/sentences.h"
#include "telar/data/pictures/image_folder.h"
#include "telar/train/job_reader.h"
#include "telar/train/run.h"
#include "telar/train/trained.h"

namespace telar {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::says;

/// Runs on 20 pictures of cats and dogs.
class RunOnPictures : public testing::Test {
 protected:
  void run(std::vector<std::string> overrides, bool resume = false) {
    const std::string job = fmt::format(
        "model: {{name: mlp, options: {{hidden: [4]}}}}\n"
        "data: {{source: images, path: \"{}\", shape: [3, 8, 8], normalise: false}}\n"
        "training: {{epochs: 1, batch: 4}}\n",
        pictures_.path().string());
    overrides.push_back("output.folder=" + path().string());
    RunOptions options;
    options.resume = resume;
    options.say = [this](const std::string& text) { said_ += text + "\n"; };
    run_job(parse_job(job, "job.yaml", overrides), options);
  }

  fs::path path() const { return folder_ / "run"; }
  Trained trained() const { return load_trained(path(), false); }

  /// Makes the run one of an older version, which had the rules in its job, or nowhere.
  void make_older(const std::string& rules_in_job) const {
    make_older_files(path(), rules_in_job);
    for (const fs::directory_entry& checkpoint : fs::directory_iterator(path() / "checkpoints")) {
      make_older_files(checkpoint.path(), rules_in_job);
      auto json = nlohmann::json::parse(test::read_text(checkpoint.path() / "state.json"));
      for (const char* file : {"job.yaml", "samples.json"}) json.at("files").erase(file);
      json.erase("crc32");
      test::write_text(checkpoint.path() / "state.json", json.dump());
    }
  }

  /// A picture of the fixture pictures.json as a file to predict.
  std::string picture(const std::string& name) const {
    std::ifstream file(test::fixtures() + "/data/pictures.json");
    const auto hex = nlohmann::json::parse(file).at(name).at("file").get<std::string>();
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2)
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    test::write_text(folder_ / name, bytes);
    return (folder_ / name).string();
  }

  /// The samples of a file to predict, as the run reads them.
  static std::vector<float> values(const Trained& trained, const std::string& file,
                                   const std::function<void(const std::string&)>& note = {}) {
    const DatasetPtr data = open_inputs(trained, file, note);
    std::vector<float> values(static_cast<size_t>(data->spec().features.elements()));
    int32_t label = 0;
    data->read(0, {}, std::as_writable_bytes(std::span(values)),
               std::as_writable_bytes(std::span(&label, 1)));
    return values;
  }

  test::TempFolder folder_;
  test::PictureFolder pictures_{folder_ / "pictures"};
  std::string said_;

 private:
  static void make_older_files(const fs::path& folder, const std::string& rules_in_job) {
    auto samples = nlohmann::json::parse(test::read_text(folder / "samples.json"));
    samples.erase("rules");
    test::write_text(folder / "samples.json", samples.dump());
    std::string job;
    std::istringstream lines(test::read_text(folder / "job.yaml"));
    for (std::string line; std::getline(lines, line);)
      job += says(line, "  orientation: ") || says(line, "  rules: ") ? rules_in_job : line + "\n";
    test::write_text(folder / "job.yaml", job);
  }
};

TEST_F(RunOnPictures, RecordsTheRulesByWhichItReadsThem) {
  run({});
  EXPECT_TRUE(says(test::read_text(path() / "samples.json"), fmt::format("\"rules\": {}", kNewestRules)));
  EXPECT_FALSE(says(test::read_text(path() / "job.yaml"), "rules"));
  const std::string alpha = picture("rgba.png");  // its first pixel is white and transparent
  EXPECT_GT(values(trained(), alpha)[0], 0.9F);
  expect_error([&] { run({"data.rules=1"}); }, {"unknown key 'data.rules'"});
}

TEST_F(RunOnPictures, AnOlderRunKeepsItsRules) {
  for (const char* in_job : {"", "  rules: 1\n"}) {
    fs::remove_all(path());
    run({});
    make_older(in_job);
    EXPECT_LT(values(trained(), picture("rgba.png"))[0], 0.1F) << in_job;
    run({"training.epochs=2"}, true);
    EXPECT_TRUE(says(test::read_text(path() / "samples.json"), "\"rules\": 1")) << in_job;
    EXPECT_FALSE(says(test::read_text(path() / "job.yaml"), "rules")) << in_job;
    EXPECT_LT(values(trained(), picture("rgba.png"))[0], 0.1F) << in_job;
  }
}

TEST_F(RunOnPictures, TheRulesInAnOlderJobCount) {
  run({});
  make_older("  rules: 2\n");
  EXPECT_GT(values(trained(), picture("rgba.png"))[0], 0.9F);
  EXPECT_EQ(read_job(path() / "job.yaml").data.rules, 2);
  expect_error([&] { read_job(path() / "job.yaml", {"data.rules=1"}); }, {"unknown key 'data.rules'"});
  const fs::path alone = folder_ / "job.yaml";
  fs::copy(path() / "job.yaml", alone);
  expect_error([&] { read_job(alone); }, {"job.yaml:", "unknown key 'data.rules'"});
  make_older("  rules: 7\n");
  expect_error([&] { read_job(path() / "job.yaml"); }, {"data.rules is '7'", "at least 1 and at most 4"});
}

TEST_F(RunOnPictures, AJobWithOtherValuesHasTheSameRules) {
  run({});
  make_older("");
  const Job changed = changed_job(trained().job, "here", {"training.epochs=3"});
  EXPECT_EQ(changed.training.epochs, 3);
  EXPECT_EQ(changed.data.rules, 1);
}

TEST_F(RunOnPictures, BytesToPredictAreReadAsItsOwn) {
  run({});
  const std::string file = (folder_ / "x.npy").string();
  test::write_npy(file, std::vector<uint8_t>(192, 51), {3, 8, 8});
  EXPECT_FLOAT_EQ(values(trained(), file)[0], 0.2F);
  const std::string numbers = (folder_ / "numbers.npy").string();
  test::write_npy(numbers, std::vector<float>(192, 51), {3, 8, 8});
  EXPECT_FLOAT_EQ(values(trained(), numbers)[0], 51);
}

TEST_F(RunOnPictures, NumbersOfAnotherScaleAreTold) {
  run({});
  std::string notes;
  const auto note = [&](const std::string& text) { notes += text; };
  const std::string file = (folder_ / "x.npy").string();
  test::write_npy(file, std::vector<uint8_t>(192, 51), {3, 8, 8});
  values(trained(), file, note);
  test::write_npy(file, std::vector<float>(192, 1), {3, 8, 8});
  values(trained(), file, note);
  EXPECT_EQ(notes, "");
  test::write_npy(file, std::vector<float>(192, 51), {3, 8, 8});
  values(trained(), file, note);
  EXPECT_TRUE(says(notes, "x.npy: has the number 51, but those of the training (images) are from 0 to 1"));
}

TEST(RunOnNumbers, BytesToPredictAreTakenAsTheyAre) {
  const test::TempFolder folder;
  const std::string job =
      "model: {name: mlp, options: {hidden: [4]}}\n"
      "data: {source: synthetic, samples: 20, test_samples: 4, shape: [6], classes: 3}\n"
      "training: {epochs: 1, batch: 4}\n";
  run_job(parse_job(job, "job.yaml", {"output.folder=" + (folder / "run").string()}), {});
  const Trained trained = load_trained(folder / "run", false);
  test::write_npy(folder / "x.npy", std::vector<uint8_t>(6, 51), {6});
  const DatasetPtr data = open_inputs(trained, (folder / "x.npy").string());
  std::vector<float> values(6);
  int32_t label = 0;
  data->read(0, {}, std::as_writable_bytes(std::span(values)), std::as_writable_bytes(std::span(&label, 1)));
  EXPECT_EQ(values[0], 51);
}

TEST_F(RunOnPictures, APictureForAModelOfNumbersIsToldToBeScaled) {
  const std::string job = fmt::format(
      "model: {{name: mlp, options: {{hidden: [4]}}}}\n"
      "data: {{source: synthetic, samples: 20, test_samples: 4, shape: [3, 8, 8], classes: 3}}\n"
      "training: {{epochs: 1, batch: 4}}\noutput: {{folder: \"{}\"}}\n",
      path().string());
  run_job(parse_job(job, "job.yaml", {}), {});
  std::string notes;
  values(trained(), pictures_.path() / "dogs" / "10.png", [&](const std::string& text) { notes += text; });
  EXPECT_TRUE(says(notes, "its bytes are read as v / 255, but those of synthetic"));
}

TEST_F(RunOnPictures, ClassesOfOtherFoldersCountByName) {
  run({});
  Trained model = trained();
  const auto classes_of = [&](const std::string& folder) {
    return with_classes_of(model, open_pictures(list_pictures(folder), {.height = 8, .width = 8}), {});
  };
  fs::create_directories(folder_ / "only");
  fs::copy(pictures_.path() / "dogs", folder_ / "only" / "dogs");
  const DatasetPtr dogs = classes_of((folder_ / "only").string());
  std::vector<float> values(192);
  int32_t label = 0;
  dogs->read(0, {}, std::as_writable_bytes(std::span(values)), std::as_writable_bytes(std::span(&label, 1)));
  EXPECT_EQ(label, 1);
  EXPECT_EQ(dogs->spec().class_names, (std::vector<std::string>{"cats", "dogs"}));
  fs::rename(folder_ / "only" / "dogs", folder_ / "only" / "wolves");
  expect_error([&] { classes_of((folder_ / "only").string()); }, {"knows no wolves; it knows cats, dogs"});
  model.spec.class_names.clear();
  EXPECT_EQ(classes_of((folder_ / "only").string())->spec().class_names, std::vector<std::string>{"wolves"});
}

TEST_F(RunOnPictures, SaysWhichFilesItIgnores) {
  test::write_text(pictures_.path() / "dogs" / "x.heic", "x");
  fs::create_symlink("/nowhere/y.png", pictures_.path() / "dogs" / "y.png");
  run({});
  EXPECT_TRUE(says(said_, "1 .heic; images are"));
  EXPECT_TRUE(
      says(said_, "1 link leads to nothing (" + (pictures_.path() / "dogs" / "y.png").string() + ")"));
}

}  // namespace
}  // namespace telar
