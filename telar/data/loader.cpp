#include "telar/data/loader.h"

#include <algorithm>
#include <chrono>

#include "telar/core/error.h"

namespace telar {
namespace {

using Clock = std::chrono::steady_clock;

/// If filling a batch takes less time than this, next() fills batches itself. Waking a thread costs as much,
/// and more where that thread displaces one that computes and for which the rest of its team waits: 45 µs of
/// a step of 0.35 ms (an MLP on two virtual Zen 4 cores, docs/performance.md).
constexpr std::chrono::microseconds kCheap(50);

}  // namespace

Loader::Loader(const BatchSource& source, LoaderOptions options) : source_(source), options_(options) {
  if (options.threads < 0 || options.threads > 1024) {
    throw user_error("A loader cannot have {} threads; the number must be 0 … 1024", options.threads);
  }
  if (options.prefetch < (options.threads > 0 ? 1 : 0)) {
    throw user_error("A loader cannot read {} batches ahead; at least 1 is needed, or 0 threads",
                     options.prefetch);
  }
  const size_t buffers = options.threads > 0 ? static_cast<size_t>(options.prefetch) + 1 : 1;
  for (size_t i = 0; i < buffers; ++i) buffers_.push_back({Batch(source.tensors()), false, nullptr});
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Loader::~Loader() {
  {
    const std::scoped_lock lock(mutex_);
    reads_.request_stop();
  }
  for (std::jthread& thread : threads_) thread.request_stop();
}

void Loader::start(const Position& position, int64_t most) {
  {
    std::unique_lock lock(mutex_);
    more_ = false;  // stops the threads from taking further batches
    most_ = 0;
    reads_.request_stop();
    ready_.wait(lock, [this] { return filling_ == 0; });
    reads_ = {};
    for (BatchBuffer& buffer : buffers_) {
      buffer.done = false;
      buffer.error = nullptr;
    }
    taken_ = held_ = given_ = 0;
    waited_seconds_ = 0;
    go_to(position);
    most_ = most;
  }
  work_.notify_all();
}

void Loader::extend() {
  {
    const std::scoped_lock lock(mutex_);
    if (known_) go_to(next_);
  }
  work_.notify_all();
}

void Loader::go_to(const Position& position) {
  more_ = !source_.at_end(position);
  next_ = position;
  known_ = true;
}

const Batch* Loader::next() {
  const auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  if (held_ < given_) {
    buffer_of(held_).done = false;
    held_ = given_;
    if (wanted_in_background()) work_.notify_one();
  }
  BatchBuffer& buffer = buffer_of(given_);
  if (taken_ == given_) {
    if (!more_ || given_ == most_) return nullptr;
    take(lock);
  }
  ready_.wait(lock, [&buffer] { return buffer.done; });
  waited_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  if (buffer.error) std::rethrow_exception(buffer.error);
  ++given_;
  return &buffer.batch;
}

bool Loader::wanted_in_background() const {
  return !cheap_ && more_ && taken_ < most_ && taken_ < held_ + static_cast<int64_t>(buffers_.size());
}

void Loader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_.wait(lock, stop, [this] { return wanted_in_background(); })) {
    if (stop.stop_requested()) return;
    take(lock);
  }
}

/// Fills the buffer of the batch at next_. If the position after it is known before, other threads continue
/// there meanwhile.
void Loader::take(std::unique_lock<std::mutex>& lock) {
  BatchBuffer& buffer = buffer_of(taken_++);
  ++filling_;
  buffer.batch.at = next_;
  more_ = known_ = false;
  std::optional<Position> after;
  const auto begin = Clock::now();
  try {
    after = source_.after(buffer.batch.at);
    if (after) go_to(*after);
    const std::stop_token stop = reads_.get_token();
    lock.unlock();
    source_.read(buffer.batch.at, buffer.batch, stop);
    lock.lock();
    if (!after) go_to(buffer.batch.after);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    buffer.error = std::current_exception();
  }
  const bool cheap = Clock::now() - begin < kCheap;
  buffer.done = true;
  --filling_;
  ready_.notify_one();
  if ((cheap_ || !after) && !cheap) work_.notify_all();
  cheap_ = cheap;
}

}  // namespace telar
