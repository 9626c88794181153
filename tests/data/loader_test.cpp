#include "telar/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "data/support.h"
#include "telar/data/arrays/idx.h"
#include "telar/data/cached.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/normalised.h"
#include "telar/data/pictures/augmented.h"
#include "telar/data/subset.h"

namespace telar::test {
namespace {

/// Numbers of which some take long to read, so that threads overtake each other. Sample `broken` throws.
class Uneven : public Numbers {
 public:
  explicit Uneven(int64_t size, int64_t broken = -1) : Numbers(size), broken_(broken) {}
  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    ++reads;
    if (index % 13 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    if (index == broken_) throw user_error("sample {} is damaged", index);
    Numbers::read(index, key, features, label);
  }
  mutable std::atomic<int> reads = 0;

 private:
  int64_t broken_;
};

/// A loader of samples in an assignment's order.
struct SampleLoader {
  SampleLoader(const Dataset& data, const Assignment& assignment, LoaderOptions options, uint64_t seed = 0)
      : batches(data, assignment, seed), loader(batches, options) {}
  void start(uint32_t epoch, int64_t step) { loader.start(batches.find(epoch, step).value()); }
  const Batch* next() { return loader.next(); }
  DatasetBatches batches;
  Loader loader;
};

const float* features_of(const Batch& batch) { return reinterpret_cast<const float*>(batch.find("x")); }
const int32_t* labels_of(const Batch& batch) { return reinterpret_cast<const int32_t*>(batch.find("label")); }

/// All batches of a loader from a step on, as one list of numbers.
std::vector<float> contents(SampleLoader& loader, uint32_t epoch, int64_t first_step,
                            const SampleSpec& spec) {
  std::vector<float> all;
  loader.start(epoch, first_step);
  int64_t step = first_step;
  while (const Batch* batch = loader.next()) {
    EXPECT_EQ(batch->at, loader.batches.find(epoch, step++));
    EXPECT_EQ(batch->after, loader.batches.find(epoch, step));
    EXPECT_EQ(batch->epoch, epoch);
    const auto count = static_cast<size_t>(batch->size());
    for (const void* part :
         {static_cast<const void*>(features_of(*batch)), static_cast<const void*>(labels_of(*batch)),
          static_cast<const void*>(batch->ids().data())}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(part) % 64, 0U);
    }
    all.push_back(static_cast<float>(batch->size()));
    all.insert(all.end(), features_of(*batch),
               features_of(*batch) + count * static_cast<size_t>(spec.features.elements()));
    all.insert(all.end(), labels_of(*batch), labels_of(*batch) + count);
    all.insert(all.end(), batch->ids().begin(), batch->ids().end());
  }
  EXPECT_EQ(loader.next(), nullptr);
  return all;
}

TEST(Loader, GivesStepsInOrderForAnyNumberOfThreads) {
  const Uneven data(205);
  const FixedSlice slice(205, 16, 3, true);
  SampleLoader plain(data, slice, {.threads = 0, .prefetch = 0});
  const auto wanted = contents(plain, 2, 0, data.spec());
  for (const int threads : {1, 2, 4}) {
    for (const int prefetch : {1, 2, 7}) {
      SampleLoader loader(data, slice, {.threads = threads, .prefetch = prefetch});
      EXPECT_EQ(contents(loader, 2, 0, data.spec()), wanted)
          << threads << " threads, " << prefetch << " ahead";
    }
  }
}

TEST(Loader, BatchHoldsTheSamplesOfTheAssignment) {
  const Numbers data(25);
  const FixedSlice slice(25, 10, 3, true, {1, 2, 2});
  SampleLoader loader(data, slice, {});
  loader.start(4, 0);
  for (int64_t step = 0; step < 3; ++step) {
    const Batch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    const auto wanted = slice.samples(4, step);
    ASSERT_EQ(batch->size(), static_cast<int64_t>(wanted.size()));
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(batch->ids()[i], wanted[i]);
      EXPECT_EQ(labels_of(*batch)[i], static_cast<int32_t>(wanted[i] % 10));
      for (size_t j = 0; j < 3; ++j) {
        EXPECT_EQ(features_of(*batch)[3 * i + j], static_cast<float>(wanted[i]));
      }
    }
  }
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, AWorkerWithoutSamplesGetsEmptyBatches) {
  const Numbers data(9);
  const FixedSlice slice(9, 4, 3, true, {0, 1, 8});
  SampleLoader loader(data, slice, {});
  loader.start(0, 0);
  for (int step = 0; step < 3; ++step) {
    const Batch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->size(), 0);
  }
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, ResumesInTheMiddleOfAnEpoch) {
  const Uneven data(205);
  const FixedSlice slice(205, 16, 3, true);
  SampleLoader loader(data, slice, {.threads = 2, .prefetch = 3});
  const auto whole = contents(loader, 1, 0, data.spec());
  SampleLoader other(data, slice, {.threads = 2, .prefetch = 3});
  const auto rest = contents(other, 1, 5, data.spec());
  ASSERT_LT(rest.size(), whole.size());
  EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), whole.rbegin()));
  EXPECT_EQ(whole.size() - rest.size(), 5U * (1 + 16 * 5));
}

TEST(Loader, CanRestartAtAnyMoment) {
  const Uneven data(205);
  const FixedSlice slice(205, 16, 3, true);
  SampleLoader plain(data, slice, {.threads = 0, .prefetch = 0});
  SampleLoader loader(data, slice, {.threads = 3, .prefetch = 4});
  for (uint32_t epoch = 0; epoch < 6; ++epoch) {
    loader.start(epoch, 0);
    for (uint32_t step = 0; step < epoch; ++step) ASSERT_NE(loader.next(), nullptr);
    EXPECT_EQ(contents(loader, epoch, 7, data.spec()), contents(plain, epoch, 7, data.spec()));
  }
}

TEST(Loader, CanBeDestroyedAtAnyMoment) {
  const Uneven data(205);
  const FixedSlice slice(205, 16, 3, true);
  for (int taken = -1; taken < 6; ++taken) {
    SampleLoader loader(data, slice, {.threads = 3, .prefetch = 4});
    if (taken >= 0) loader.start(0, 0);
    for (int i = 0; i < taken; ++i) ASSERT_NE(loader.next(), nullptr);
  }
}

TEST(Loader, ReadsAheadUpToItsLimit) {
  const Uneven data(200);
  const WholeBatch all(200, 10);
  SampleLoader loader(data, all, {.threads = 1, .prefetch = 3});
  loader.start(0, 0);
  ASSERT_NE(loader.next(), nullptr);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (data.reads < 40 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(data.reads, 40);  // the batch in use and three others
}

/// Numbers that count how often the consumer's thread reads them.
class Watched : public Numbers {
 public:
  using Numbers::Numbers;
  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    ++reads;
    if (std::this_thread::get_id() == consumer) ++reads_of_consumer;
    Numbers::read(index, key, features, label);
  }
  std::thread::id consumer = std::this_thread::get_id();
  mutable std::atomic<int> reads = 0, reads_of_consumer = 0;
};

TEST(Loader, TheConsumerMakesCheapBatches) {
  const Watched data(8000);
  const WholeBatch all(8000, 4);
  SampleLoader loader(data, all, {.threads = 1, .prefetch = 3});
  loader.start(0, 0);
  while (loader.next() != nullptr) {
  }
  EXPECT_EQ(data.reads, 8000);
  EXPECT_GT(data.reads_of_consumer,
            4000);  // not all: an interrupted batch appears to be expensive
}

/// Numbers that record which samples were announced and which were read. For one thread.
class Announced : public Numbers {
 public:
  using Numbers::Numbers;
  void expect(int64_t index) const override { expected.push_back(index); }
  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    read_order.push_back(index);
    Numbers::read(index, key, features, label);
  }
  mutable std::vector<int64_t> expected, read_order;
};

TEST(Loader, AnnouncesTheNextSamplesToTheDataset) {
  const auto data = std::make_shared<Announced>(40);
  const DatasetPtr wrapped = normalised(subset(data, {7, 3, 30, 11, 12}), {0}, {1});
  const WholeBatch all(5, 5);
  SampleLoader loader(*wrapped, all, {.threads = 0, .prefetch = 0});
  loader.start(0, 0);
  ASSERT_NE(loader.next(), nullptr);
  EXPECT_EQ(data->read_order, (std::vector<int64_t>{7, 3, 30, 11, 12}));
  EXPECT_EQ(data->expected, (std::vector<int64_t>{30, 11, 12}));
}

TEST(Loader, NextThrowsABackgroundErrorAtItsStep) {
  const Uneven data(100, 57);
  const WholeBatch all(100, 10);
  for (const int threads : {0, 1, 3}) {
    SampleLoader loader(data, all, {.threads = threads, .prefetch = 4});
    loader.start(0, 0);
    for (int step = 0; step < 5; ++step) ASSERT_NE(loader.next(), nullptr);
    for (int again = 0; again < 2; ++again) {
      expect_error([&] { loader.next(); }, {"sample 57 is damaged"});
    }
    loader.start(0, 8);
    EXPECT_EQ(loader.next()->at, loader.batches.find(0, 8));
    EXPECT_EQ(loader.next()->at, loader.batches.find(0, 9));
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST(Loader, AugmentedRealImagesAreTheSameForAnyThreadsAndWorkers) {
  const DatasetPtr data = normalised(
      augmented(cached(open_idx_folder(fashion_mnist(), Split::test)), {.padding = 3, .flip = true}),
      {0.2860F}, {0.3530F});
  const auto image_bytes = data->spec().feature_bytes();
  const auto run = [&](int threads, int64_t workers, uint32_t epoch) {
    std::vector<std::vector<std::byte>> by_sample(static_cast<size_t>(data->size()));
    for (int64_t w = 0; w < workers; ++w) {
      const FixedSlice slice(data->size(), 100, 9, true, {w, w + 1, workers});
      SampleLoader loader(*data, slice, {.threads = threads, .prefetch = 2}, 21);
      loader.start(epoch, 80);
      while (const Batch* batch = loader.next()) {
        for (int64_t i = 0; i < batch->size(); ++i) {
          const std::byte* image = batch->find("x") + static_cast<size_t>(i) * image_bytes;
          by_sample[static_cast<size_t>(batch->ids()[i])].assign(image, image + image_bytes);
        }
      }
    }
    return by_sample;
  };
  const auto wanted = run(0, 1, 3);
  EXPECT_EQ(run(1, 1, 3), wanted);
  EXPECT_EQ(run(4, 1, 3), wanted);
  EXPECT_EQ(run(2, 3, 3), wanted);
  EXPECT_NE(run(1, 1, 4), wanted);
}

TEST(Loader, MeasuresTheWaitingTime) {
  const Uneven data(13);
  const WholeBatch all(13, 13);
  SampleLoader loader(data, all, {.threads = 1, .prefetch = 1});
  loader.start(0, 0);
  EXPECT_EQ(loader.loader.waited_seconds(), 0);
  ASSERT_NE(loader.next(), nullptr);
  EXPECT_GT(loader.loader.waited_seconds(), 0);
  EXPECT_LT(loader.loader.waited_seconds(), 5);
}

TEST(Loader, RejectsImpossibleOptions) {
  const Numbers data(10);
  const WholeBatch all(10, 5);
  expect_error([&] { SampleLoader(data, all, {.threads = -1}); }, {"-1 threads"});
  expect_error([&] { SampleLoader(data, all, {.threads = 1, .prefetch = 0}); }, {"0 batches ahead"});
  SampleLoader loader(data, all, {});
  EXPECT_EQ(loader.batches.find(0, 3), std::nullopt);
  const WholeBatch single(10, 1);
  const DatasetBatches longer(data, single);
  expect_error([&] { loader.loader.start(longer.find(0, 3).value()); },
               {"epoch 0 has no position after 3 steps; it has 2 steps"});
  expect_error([&] { loader.loader.start({"?"}); }, {"a position of 1 bytes"});
}

}  // namespace
}  // namespace telar::test
