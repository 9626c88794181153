#include "telar/data/loader.h"

#include <algorithm>
#include <chrono>

#include "telar/core/error.h"

namespace telar {
namespace {

using Clock = std::chrono::steady_clock;

/// The loader announces a sample to the dataset while it reads the one that is this many samples earlier.
constexpr size_t kAhead = 2;

/// If filling a batch takes less time than this, next() fills batches itself. Waking a thread costs as much,
/// and more where that thread displaces one that computes and for which the rest of its team waits: 45 µs of
/// a step of 0.35 ms (an MLP on two virtual Zen 4 cores, docs/performance.md).
constexpr std::chrono::microseconds kCheap(50);

void grow(Buffer& buffer, size_t items, size_t item_bytes) {
  const auto bytes =
      static_cast<size_t>(product_of({static_cast<int64_t>(items), static_cast<int64_t>(item_bytes)}));
  if (buffer.size() < bytes) buffer = Buffer(bytes);
}

}  // namespace

Loader::Loader(const Dataset& data, const Assignment& assignment, LoaderOptions options)
    : data_(data), assignment_(assignment), options_(options) {
  if (options.threads < 0 || options.threads > 1024) {
    throw user_error("A loader cannot have {} threads; the number must be 0 … 1024", options.threads);
  }
  if (options.prefetch < (options.threads > 0 ? 1 : 0)) {
    throw user_error("A loader cannot read {} batches ahead; at least 1 is needed, or 0 threads",
                     options.prefetch);
  }
  buffers_ = std::vector<BatchBuffer>(options.threads > 0 ? static_cast<size_t>(options.prefetch) + 1 : 1);
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Loader::~Loader() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void Loader::start(uint32_t epoch, int64_t first_step) {
  const int64_t steps = assignment_.steps(epoch);
  if (first_step < 0 || first_step > steps) {
    throw run_error("Epoch {} cannot begin at step {}; it has {} steps", epoch, first_step, steps);
  }
  {
    std::unique_lock lock(mutex_);
    end_ = 0;  // stops the threads from taking further steps
    ready_.wait(lock, [this] { return filling_ == 0; });
    for (BatchBuffer& buffer : buffers_) {
      buffer.done = false;
      buffer.error = nullptr;
    }
    epoch_ = epoch;
    taken_ = held_ = given_ = first_step;
    end_ = steps;
    waited_seconds_ = 0;
  }
  work_.notify_all();
}

void Loader::extend() {
  {
    const std::scoped_lock lock(mutex_);
    end_ = assignment_.steps(epoch_);
  }
  work_.notify_all();
}

const Batch* Loader::next() {
  const auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  if (held_ < given_) {
    buffer_of(held_).done = false;
    held_ = given_;
    if (wanted_in_background()) work_.notify_one();
  }
  if (given_ == end_) return nullptr;
  BatchBuffer& buffer = buffer_of(given_);
  if (taken_ == given_) take(lock);
  ready_.wait(lock, [&buffer] { return buffer.done; });
  waited_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  if (buffer.error) std::rethrow_exception(buffer.error);
  ++given_;
  return &buffer.batch;
}

bool Loader::wanted_in_background() const {
  return !cheap_ && taken_ < end_ && taken_ < held_ + static_cast<int64_t>(buffers_.size());
}

void Loader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_.wait(lock, stop, [this] { return wanted_in_background(); })) {
    if (stop.stop_requested()) return;
    take(lock);
  }
}

void Loader::take(std::unique_lock<std::mutex>& lock) {
  const int64_t step = taken_++;
  ++filling_;
  BatchBuffer& buffer = buffer_of(step);
  lock.unlock();
  const auto begin = Clock::now();
  std::exception_ptr error;
  try {
    fill(buffer, step);
  } catch (...) {
    error = std::current_exception();
  }
  const bool cheap = Clock::now() - begin < kCheap;
  lock.lock();
  buffer.error = error;
  buffer.done = true;
  --filling_;
  ready_.notify_one();
  if (cheap_ && !cheap) work_.notify_all();
  cheap_ = cheap;
}

void Loader::fill(BatchBuffer& buffer, int64_t step) {
  const std::vector<int64_t> samples = assignment_.samples(epoch_, step);
  const size_t features = data_.spec().feature_bytes();
  const size_t labels = data_.spec().label_bytes();
  grow(buffer.features, samples.size(), features);
  grow(buffer.labels, samples.size(), labels);
  grow(buffer.samples, samples.size(), sizeof(int64_t));
  const SampleKey key{options_.seed, epoch_};
  const std::span<int64_t> ids = buffer.samples.as<int64_t>();
  for (const int64_t sample : samples) {
    if (sample < 0 || sample >= data_.size()) {
      throw run_error("Sample {} was assigned to step {} of epoch {}, but the dataset has {} samples", sample,
                      step, epoch_, data_.size());
    }
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i + kAhead < samples.size()) data_.expect(samples[i + kAhead]);
    data_.read(samples[i], key, {buffer.features.data() + i * features, features},
               {buffer.labels.data() + i * labels, labels});
    ids[i] = samples[i];
  }
  buffer.batch = {static_cast<int64_t>(samples.size()),
                  epoch_,
                  step,
                  buffer.features.data(),
                  buffer.labels.data(),
                  buffer.samples.data() == nullptr ? nullptr : ids.data()};
}

}  // namespace telar
