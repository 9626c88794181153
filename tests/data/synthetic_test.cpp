#include "telar/data/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "data/support.h"

namespace telar::test {
namespace {

/// The accuracy of a nearest-mean classifier: class means of the first half, tested on the second half.
double nearest_mean_accuracy(const Dataset& data) {
  const auto classes = static_cast<size_t>(data.spec().classes);
  const auto width = static_cast<size_t>(data.spec().features.elements());
  std::vector<std::vector<double>> means(classes, std::vector<double>(width));
  const int64_t half = data.size() / 2;
  for (int64_t i = 0; i < half; ++i) {
    const Sample sample = read(data, i);
    auto& mean = means[static_cast<size_t>(sample.label)];
    for (size_t j = 0; j < width; ++j)
      mean[j] += sample.values[j] / (static_cast<double>(half) / static_cast<double>(classes));
  }
  int64_t right = 0;
  for (int64_t i = half; i < data.size(); ++i) {
    const Sample sample = read(data, i);
    std::vector<double> distances;
    for (const auto& mean : means) {
      double sum = 0;
      for (size_t j = 0; j < width; ++j) sum += (sample.values[j] - mean[j]) * (sample.values[j] - mean[j]);
      distances.push_back(sum);
    }
    right += std::min_element(distances.begin(), distances.end()) - distances.begin() == sample.label ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(data.size() - half);
}

TEST(Synthetic, ClassesAreSeparable) {
  EXPECT_GT(nearest_mean_accuracy(*synthetic({.samples = 1000, .features = {1, 28, 28}})), 0.99);
  EXPECT_GT(nearest_mean_accuracy(*synthetic({.samples = 1000, .features = {3, 32, 32}})), 0.99);
  EXPECT_GT(nearest_mean_accuracy(*synthetic({.samples = 1000, .features = {17}})), 0.6);
}

TEST(Synthetic, SameSeedAndNumberGiveTheSameSample) {
  const SyntheticOptions options{.samples = 100, .seed = 9};
  const DatasetPtr data = synthetic(options);
  EXPECT_EQ(read(*data, 42), read(*synthetic(options), 42));
  EXPECT_NE(read(*data, 42).values, read(*data, 52).values);
  EXPECT_NE(read(*data, 42).values, read(*synthetic({.samples = 100, .seed = 10}), 42).values);
  const DatasetPtr later = synthetic({.samples = 10, .seed = 9, .first = 40});
  EXPECT_EQ(read(*later, 2), read(*data, 42));
}

TEST(Synthetic, TokensStayInTheVocabularyAndDependOnTheClass) {
  const DatasetPtr data =
      synthetic({.samples = 200, .features = {50}, .classes = 4, .seed = 1, .vocabulary = 41});
  EXPECT_EQ(data->spec().dtype, DType::i32);
  for (int64_t i = 0; i < data->size(); ++i) {
    const Sample sample = read(*data, i);
    EXPECT_EQ(sample.label, i % 4);
    std::vector<int> per_class(5);
    for (const int32_t token : sample.tokens) {
      ASSERT_GE(token, 0);
      ASSERT_LT(token, 41);
      ++per_class[static_cast<size_t>(token / 10)];
    }
    EXPECT_EQ(std::max_element(per_class.begin(), per_class.end()) - per_class.begin(), sample.label);
  }
}

TEST(Synthetic, TargetsAreALinearFunctionOfUnitSize) {
  const DatasetPtr data = synthetic({.samples = 2000, .features = {8}, .classes = 0, .seed = 4});
  EXPECT_EQ(data->spec().labels, Shape({1}));
  double squares = 0;
  for (int64_t i = 0; i < data->size(); ++i) squares += std::pow(read(*data, i).targets[0], 2);
  EXPECT_GT(squares / 2000, 0.2);
  EXPECT_LT(squares / 2000, 5);
}

TEST(Synthetic, RejectsImpossibleOptions) {
  expect_error([] { synthetic({.samples = 0}); }, {"not 0"});
  expect_error([] { synthetic({.features = {3, 0}}); }, {"[3, 0]"});
  expect_error([] { synthetic({.features = {}}); }, {"[]"});
  expect_error([] { synthetic({.classes = -1}); }, {"-1 classes"});
  expect_error([] { synthetic({.features = {5}, .classes = 4, .vocabulary = 3}); }, {"vocabulary (not 3)"});
}

}  // namespace
}  // namespace telar::test
