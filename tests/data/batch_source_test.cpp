#include "telar/data/batch_source.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "data/support.h"
#include "support/endless.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/loader.h"

namespace telar::test {
namespace {

std::vector<int64_t> ids_of(const Batch& batch) { return {batch.ids().begin(), batch.ids().end()}; }

/// A source with several inputs, a mask and a label for each position.
class Sequences : public Endless {
 public:
  Sequences() : Endless(2) {}
  const std::vector<BatchTensor>& tensors() const override { return tensors_; }
  using Endless::read;
  void read(const Position& position, Batch& batch, const std::stop_token& /*stop*/) const override {
    batch.resize(2);
    for (size_t i = 0; i < tensors_.size(); ++i)
      std::memset(batch.data(i), static_cast<int>(i + 1), 2 * tensors_[i].sample_bytes());
    batch.ids().front() = 0;
    batch.ids().back() = int64_t{1} << 40;
    batch.after = after(position).value();
  }

 private:
  std::vector<BatchTensor> tensors_ = {{"x", DType::i32, {5}},
                                       {"picture", DType::f32, {3, 8, 8}},
                                       {"mask", DType::f32, {5}},
                                       {"label", DType::i32, {5}},
                                       {"weight", DType::f32, {}}};
};

TEST(BatchSource, ABatchHasTensorsOfAnyNameAndShape) {
  const Sequences source;
  Batch batch(source.tensors());
  source.read(source.begin(0), batch);
  EXPECT_EQ(batch.size(), 2);
  EXPECT_EQ(source.tensors()[1].sample_bytes(), 3U * 8 * 8 * sizeof(float));
  EXPECT_EQ(batch.find("weight")[7], std::byte{5});
  EXPECT_EQ(batch.find("mask")[39], std::byte{3});
  EXPECT_EQ(batch.find("nothing"), nullptr);
  EXPECT_EQ(ids_of(batch), (std::vector<int64_t>{0, int64_t{1} << 40}));
}

TEST(DatasetBatches, GiveTheSamplesOfTheAssignment) {
  const Numbers data(25);
  const FixedSlice slice(25, 10, 3, true, {1, 2, 2});
  const DatasetBatches batches(data, slice);
  Batch batch(batches.tensors());
  Position position = batches.begin(4);
  for (int64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(position, batches.find(4, step));
    ASSERT_FALSE(batches.at_end(position));
    batches.read(position, batch);
    EXPECT_EQ(ids_of(batch), slice.samples(4, step));
    EXPECT_EQ(batch.all_samples, step < 2 ? 10 : 5);
    EXPECT_EQ(batch.epoch, 4U);
    EXPECT_EQ(batch.after, batches.after(position));
    position = batch.after;
  }
  EXPECT_TRUE(batches.at_end(position));
  EXPECT_EQ(batches.size(4)->batches, 3);
  EXPECT_EQ(batches.size(4)->samples, 25);
}

TEST(DatasetBatches, PositionsAreOrderedAndCanBeStored) {
  const Numbers data(1000);
  const WholeBatch assignment(1000, 1);
  const DatasetBatches batches(data, assignment);
  Position before = batches.begin(0);
  for (int64_t step = 1; step <= 1000; ++step) {
    const Position position = batches.find(0, step).value();
    EXPECT_LT(before, position) << step;
    before = position;
  }
  EXPECT_LT(before, batches.begin(1));
  const DatasetBatches again(data, assignment);
  Batch batch(again.tensors());
  again.read({std::string(batches.find(0, 700)->bytes)}, batch);
  EXPECT_EQ(ids_of(batch), std::vector<int64_t>{700});
}

TEST(DatasetBatches, RefusePositionsOfOtherSources) {
  const Numbers data(10);
  const WholeBatch assignment(10, 5);
  const DatasetBatches batches(data, assignment);
  Batch batch(batches.tensors());
  for (const std::string bytes :
       {"", "abc", "batch b0", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"})
    expect_error([&] { (void)batches.at_end({bytes}); }, {"is not one of these samples"});
  const std::string beyond = std::string(4, '\0') + std::string(8, '\xff');
  expect_error([&] { (void)batches.at_end({beyond}); }, {"epoch 0 has no position after", "it has 2 steps"});
  expect_error([&] { batches.read({beyond}, batch); }, {"it has 2 steps"});
  EXPECT_EQ(batches.find(0, 3), std::nullopt);
  EXPECT_EQ(batches.find(0, -1), std::nullopt);
}

std::vector<int64_t> first_ids(Loader& loader, int batches) {
  std::vector<int64_t> ids;
  for (int i = 0; i < batches; ++i) {
    const Batch* batch = loader.next();
    if (batch == nullptr) break;
    ids.push_back(batch->ids().front());
  }
  return ids;
}

TEST(EndlessSource, ALoaderGivesItsBatchesInOrder) {
  for (const bool foresees : {true, false}) {
    const Endless source(8, foresees);
    for (const int threads : {0, 1, 3}) {
      Loader loader(source, {.threads = threads, .prefetch = 2});
      loader.start(source.begin(0));
      EXPECT_EQ(first_ids(loader, 4), (std::vector<int64_t>{0, 8, 16, 24})) << threads;
      loader.start(Endless::position_of(1000));
      EXPECT_EQ(first_ids(loader, 2), (std::vector<int64_t>{8000, 8008})) << threads;
      loader.start(Endless::position_of(5), 2);
      EXPECT_EQ(first_ids(loader, 5), (std::vector<int64_t>{40, 48})) << threads << ": two were wanted";
    }
  }
}

TEST(EndlessSource, AnEndThatNobodyKnewEndsTheLoader) {
  for (const bool foresees : {true, false}) {
    const Endless source(8, foresees, 3);
    for (const int threads : {0, 1, 3}) {
      Loader loader(source, {.threads = threads, .prefetch = 2});
      loader.start(source.begin(0));
      EXPECT_EQ(first_ids(loader, 9), (std::vector<int64_t>{0, 8, 16})) << threads;
      EXPECT_EQ(loader.next(), nullptr);
    }
  }
}

}  // namespace
}  // namespace telar::test
