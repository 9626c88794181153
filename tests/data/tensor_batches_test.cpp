#include "telar/data/tensor_batches.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/sentences.h"

namespace telar {
namespace {

std::vector<SampleTensor> tensors() {
  return {sample_tensor<float>("x", {2}, {0, 0.5F, 1, 1.5F, 2, 2.5F}),
          sample_tensor<int32_t>("label", {}, {10, 11, 12}),
          sample_tensor<int32_t>("tokens", {1, 3}, {0, 1, 2, 10, 11, 12, 20, 21, 22})};
}

TEST(TensorBatches, EveryTensorFollowsTheOrderOfTheSamples) {
  const FixedSlice assignment(3, 2, 4, true);
  const TensorBatches batches(tensors(), assignment);
  ASSERT_EQ(batches.tensors().size(), 3U);
  EXPECT_EQ(batches.tensors()[2], (BatchTensor{"tokens", DType::i32, {1, 3}}));
  Batch batch(batches.tensors());
  std::vector<int64_t> seen;
  for (Position at = batches.begin(1); !batches.at_end(at); at = batch.after) {
    batches.read(at, batch);
    for (int64_t i = 0; i < batch.size(); ++i) {
      const int64_t id = batch.ids()[static_cast<size_t>(i)];
      seen.push_back(id);
      float x[2];
      std::memcpy(x, batch.find("x") + i * 8, sizeof x);
      EXPECT_EQ(x[1], static_cast<float>(id) + 0.5F);
      int32_t token = 0;
      std::memcpy(&token, batch.find("tokens") + i * 12 + 8, sizeof token);
      EXPECT_EQ(token, 10 * id + 2);
    }
  }
  EXPECT_EQ(seen, [&] {
    std::vector<int64_t> all = assignment.samples(1, 0);
    for (const int64_t id : assignment.samples(1, 1)) all.push_back(id);
    return all;
  }());
}

TEST(TensorBatches, RefusesTensorsThatDoNotBelongTogether) {
  const FixedSlice assignment(3, 2, 4, true);
  const auto refused = [&](std::vector<SampleTensor> given, const std::vector<std::string_view>& words) {
    test::expect_error([&] { TensorBatches(std::move(given), assignment); }, words);
  };
  refused({}, {"at least 1 tensor"});
  refused({tensors()[0], tensors()[0]}, {"two tensors", "'x'"});
  refused({tensors()[0], sample_tensor<int32_t>("label", {}, {1, 2})},
          {"'x' has 3 samples", "'label' has 2"});
  refused({sample_tensor<float>("x", {2}, {1, 2, 3})}, {"'x' has 12 bytes", "samples of 8 bytes"});
}

}  // namespace
}  // namespace telar
