#include "telar/data/readable.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "data/support.h"

namespace telar::test {
namespace {

/// Samples of one number, of which some cannot be read.
class Flawed : public Dataset {
 public:
  Flawed(int64_t size, std::set<int64_t> damaged) : size_(size), damaged_(std::move(damaged)) {
    spec_.features = {1};
    spec_.classes = 2;
  }
  int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    ++reads;
    if (index == broken) throw run_error("the disk failed");
    if (damaged_.contains(index)) throw user_error("sample {} is damaged", index);
    as_floats(features)[0] = static_cast<float>(index);
    as_ints(label)[0] = 0;
  }
  mutable std::atomic<int64_t> reads = 0;
  int64_t broken = -1;

 private:
  SampleSpec spec_;
  int64_t size_;
  std::set<int64_t> damaged_;
};

TEST(UnreadableSamples, AreFoundInOrderWithAnyNumberOfThreads) {
  const Flawed data(1000, {3, 500, 999});
  for (const int threads : {1, 4}) {
    data.reads = 0;
    const auto found = unreadable_samples(data, {.threads = threads, .watch = {}});
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[0].index, 3U);
    EXPECT_EQ(found[2].index, 999U);
    EXPECT_EQ(found[1].reason, "sample 500 is damaged");
    EXPECT_EQ(data.reads, 1000) << "every sample is read once";
  }
}

TEST(UnreadableSamples, AreLeftOut) {
  const auto data = std::make_shared<Flawed>(5, std::set<int64_t>{0, 3});
  const DatasetPtr rest = without_samples(data, {0, 3});
  ASSERT_EQ(rest->size(), 3);
  EXPECT_EQ(read(*rest, 0).values, std::vector<float>{1});
  EXPECT_EQ(read(*rest, 2).values, std::vector<float>{4});
  EXPECT_EQ(without_samples(data, {}), data);
}

TEST(UnreadableSamples, AreNotFailuresOfTheMachine) {
  Flawed data(100, {});
  data.broken = 50;
  EXPECT_EQ(sentence_of([&] { unreadable_samples(data, {.threads = 2, .watch = {}}); }, Error::Kind::run),
            "the disk failed");
}

TEST(UnreadableSamples, CanBeGivenUp) {
  class Slow : public Flawed {
   public:
    Slow() : Flawed(1'000'000, {}) {}
    void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
              std::span<std::byte> label) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Flawed::read(index, key, features, label);
    }
  };
  const Slow data;
  int64_t seen = 0;
  const ReadCheck options{.threads = 2, .watch = [&](int64_t done) {
                            seen = done;
                            return false;
                          }};
  EXPECT_EQ(sentence_of([&] { unreadable_samples(data, options); }, Error::Kind::run),
            "the samples were not checked to the end: stopped");
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace telar::test
