#include "telar/data/readable.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/data/subset.h"

namespace telar {
namespace {

class ItemChecks {
 public:
  ItemChecks(int64_t count, const ReadCheck& options, const std::function<ItemCheck()>& make_check)
      : count_(count), options_(options), make_check_(make_check) {}

  std::vector<UnreadableSample> run() {
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < std::max(1, options_.threads); ++i) threads.emplace_back([this] { work(); });
      watch();
    }
    if (error_) std::rethrow_exception(error_);
    if (next_ < count_ || given_up_) throw run_error("the samples were not checked to the end: stopped");
    std::sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
    return std::move(found_);
  }

 private:
  static constexpr int64_t kAtOnce = 16;

  void watch() {
    std::unique_lock lock(mutex_);
    while (!finished_.wait_for(lock, std::chrono::seconds(1), [this] { return done_ == count_ || error_; })) {
      if (!options_.watch || options_.watch(done_)) continue;
      given_up_ = true;
      return;
    }
  }

  /// The next items to check: from the first number to before the second.
  std::pair<int64_t, int64_t> take() {
    const std::scoped_lock lock(mutex_);
    if (given_up_ || error_) return {0, 0};
    const int64_t first = next_;
    next_ = std::min(next_ + kAtOnce, count_);
    return {first, next_};
  }

  void work() {
    try {
      const ItemCheck check = make_check_();
      for (auto [at, end] = take(); at < end; std::tie(at, end) = take()) {
        const int64_t count = end - at;
        for (; at < end; ++at) check_one(check, at);
        const std::scoped_lock lock(mutex_);
        done_ += count;
        if (done_ == count_) finished_.notify_one();
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = std::current_exception();
      finished_.notify_one();
    }
  }

  void check_one(const ItemCheck& check, int64_t index) {
    try {
      check(index);
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::user) throw;
      const std::scoped_lock lock(mutex_);
      found_.push_back({index, error.what()});
    }
  }

  const int64_t count_;
  const ReadCheck& options_;
  const std::function<ItemCheck()>& make_check_;
  std::mutex mutex_;
  std::condition_variable finished_;
  int64_t next_ = 0;
  int64_t done_ = 0;
  bool given_up_ = false;
  std::exception_ptr error_;
  std::vector<UnreadableSample> found_;
};

/// The memory into which one thread reads samples.
struct SampleMemory {
  explicit SampleMemory(const SampleSpec& spec) : features(spec.feature_bytes()), label(spec.label_bytes()) {}
  Buffer features;
  Buffer label;
};

}  // namespace

std::vector<UnreadableSample> check_items(int64_t count, const ReadCheck& options,
                                          const std::function<ItemCheck()>& make_check) {
  return ItemChecks(count, options, make_check).run();
}

std::vector<UnreadableSample> unreadable_samples(const Dataset& data, const ReadCheck& options) {
  return check_items(data.size(), options, [&data]() -> ItemCheck {
    return [&data, memory = std::make_shared<SampleMemory>(data.spec())](int64_t index) {
      data.read(index, {}, {memory->features.data(), memory->features.size()},
                {memory->label.data(), memory->label.size()});
    };
  });
}

DatasetPtr without_samples(DatasetPtr data, const std::vector<int64_t>& samples) {
  if (samples.empty()) return data;
  Selection kept = Selection(data->size(), samples).complement();
  return selected(std::move(data), std::move(kept));
}

}  // namespace telar
