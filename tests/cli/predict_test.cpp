#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <sstream>
#include <vector>

#include "cli/command.h"
#include "cli/idx_files.h"
#include "support/picture_folder.h"
#include "support/pictures.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

std::string as_text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// An image in which every pixel is as bright as those of idx_images.
Image grey(int64_t size) {
  return {size, size, 3, std::vector<uint8_t>(static_cast<size_t>(3 * size * size), 0x40)};
}

std::string npy_of(const std::string& shape, size_t count) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  std::string file = std::string("\x93NUMPY\1\0\x76\0", 10) + header;
  const std::vector<float> values(count, 64.0F / 255);
  file.append(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
  return file;
}

class Predict : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string part : {"train", "t10k"}) {
      write_text(folder_ / "data" / (part + "-images-idx3-ubyte"), idx_images(40, 40));
      write_text(folder_ / "data" / (part + "-labels-idx1-ubyte"), idx_labels(40));
    }
    write_text(folder_ / "job.yaml",
               "model: mlp\ndata: {source: idx, path: data}\ntraining: {epochs: 1, batch: 8}\n");
    ASSERT_EQ(telar("train job.yaml --output run --quiet").code, 0);
  }

  CommandResult telar(const std::string& arguments) const { return telar_in(folder_.path(), arguments); }

  /// The ten class probabilities of each sample in the file.
  std::vector<std::vector<double>> probabilities(const std::string& file) const {
    const CommandResult result = telar("predict run " + file + " --all");
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<std::vector<double>> rows;
    std::istringstream lines(result.out);
    std::string line;
    std::getline(lines, line);  // the column names
    while (std::getline(lines, line)) {
      std::istringstream cells(line);
      std::vector<double> row;
      std::string cell;
      for (int i = 0; std::getline(cells, cell, ','); ++i) {
        if (i >= 4) row.push_back(std::stod(cell));
      }
      EXPECT_EQ(row.size(), 10U);
      rows.push_back(row);
    }
    return rows;
  }

  void expect_same(const std::string& file, size_t samples, double tolerance) const {
    const auto expected = probabilities("data/t10k-images-idx3-ubyte").at(0);
    const auto given = probabilities(file);
    ASSERT_EQ(given.size(), samples) << file;
    for (size_t c = 0; c < expected.size(); ++c) EXPECT_NEAR(given[0].at(c), expected[c], tolerance) << file;
  }

  TempFolder folder_;
};

TEST_F(Predict, DependsOnThePixelsNotOnTheFileFormat) {
  write_text(folder_ / "a.png", as_text(png_of(grey(28))));
  write_text(folder_ / "a.jpeg", as_text(jpeg_of(grey(28))));
  write_text(folder_ / "large.png", as_text(png_of(grey(56))));
  write_text(folder_ / "a.npy", npy_of("(2, 1, 28, 28)", 2 * 784));
  expect_same("a.png", 1, 1e-6);
  expect_same("large.png", 1, 1e-5);
  expect_same("a.jpeg", 1, 5e-3);  // JPEG may change the brightness by one step
  expect_same("a.npy", 2, 1e-6);
}

TEST_F(Predict, QuietPrintsOnlyResults) {
  EXPECT_TRUE(says(telar("predict run data/t10k-images-idx3-ubyte").err, "checkpoint: run"));
  const CommandResult quiet = telar("predict run data/t10k-images-idx3-ubyte --quiet");
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.err, "");
  EXPECT_TRUE(says(quiet.out, "input,sample"));
  EXPECT_TRUE(says(telar("predict run").err,
                   "there are no samples; give either files, as in telar predict run FILE"));
}

TEST_F(Predict, RefusesDataThatDoesNotFit) {
  write_text(folder_ / "wide.npy", npy_of("(1, 1, 28, 29)", 28 * 29));
  write_text(folder_ / "half.png", as_text(png_of(grey(28))).substr(0, 60));
  write_text(folder_ / "text.txt", "a picture");
  EXPECT_TRUE(says(telar("predict run wide.npy").err, "[1, 28, 29]; the model takes [1, 28, 28]"));
  EXPECT_TRUE(says(telar("predict run half.png").err, "half.png"));
  EXPECT_TRUE(says(telar("predict run text.txt").err, "a JPEG, PNG, WebP, GIF, BMP or TIFF image"));
  EXPECT_TRUE(says(telar("predict run nowhere.png").err, "nowhere.png"));
  for (const char* file : {"wide.npy", "half.png", "text.txt", "nowhere.png"}) {
    EXPECT_EQ(telar(std::string("predict run ") + file).code, 2) << file;
  }
}

TEST(EvaluateOnPictures, ClassesOfAnotherFolderCountByName) {
  const TempFolder folder;
  const PictureFolder pictures(folder / "pictures");
  write_text(folder / "job.yaml",
             "model: {name: mlp, options: {hidden: [8]}}\n"
             "data: {source: images, path: pictures, shape: [3, 8, 8], validation: 0}\n"
             "training: {epochs: 40, batch: 5}\noutput: {checkpoint_epochs: 40}\n");
  const auto telar = [&](const std::string& arguments) { return telar_in(folder.path(), arguments); };
  ASSERT_EQ(telar("train job.yaml --output run --quiet").code, 0);
  std::filesystem::create_directories(folder / "other");
  std::filesystem::copy(pictures.path() / "dogs", folder / "other" / "dogs");
  const CommandResult dogs = telar("evaluate run --data other");
  EXPECT_TRUE(says(dogs.out, "accuracy 1.0000")) << dogs.out << dogs.err;
  std::filesystem::rename(folder / "other" / "dogs", folder / "other" / "wolves");
  const CommandResult wolves = telar("evaluate run --data other");
  EXPECT_EQ(wolves.code, 2);
  EXPECT_TRUE(says(wolves.err, "knows no wolves; it knows cats, dogs"));
}

}  // namespace
}  // namespace telar::test
