#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "telar/data/batch_source.h"

namespace telar {

struct LoaderOptions {
  int threads = 1;   ///< background threads for batches that take long to read; with 0, next() reads all
  int prefetch = 2;  ///< batches read ahead of the one in use; at least 1 unless threads is 0
};

/// Reads the batches of a source, ahead of their use, into memory that is reused. Batches that take only
/// microseconds (data in memory) are read when requested, so they do not keep a second thread busy. The
/// source must outlive the loader. Only one thread may call start() and next().
///
///     Loader loader(batches, {.threads = 1, .prefetch = 2});
///     loader.start(batches.begin(epoch));
///     while (const Batch* batch = loader.next()) train_on(*batch);
class Loader {
 public:
  /// Throws Error (user) for options out of range.
  Loader(const BatchSource& source, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  /// Begins at a position, whether or not the batches before were finished (reads that wait for samples
  /// stop), and reads at most `most` batches:
  /// a source without an end would be read ahead further than needed. Invalidates the current batch. Throws
  /// Error (user) for a position that is not one of the source.
  void start(const Position& position, int64_t most = kNoLimit);

  /// Continues after the source has received more.
  void extend();

  /// The next batch, in the order of positions; null at the end. Valid until the next call of next() or
  /// start(). If reading the batch failed, throws that error, again on each further call.
  const Batch* next();

  /// Seconds that next() has waited for data since start().
  double waited_seconds() const { return waited_seconds_; }

 private:
  struct BatchBuffer {
    Batch batch;
    bool done = false;         ///< filled or failed; set under the mutex
    std::exception_ptr error;  ///< why it failed
  };

  BatchBuffer& buffer_of(int64_t number) { return buffers_[static_cast<size_t>(number) % buffers_.size()]; }
  bool wanted_in_background() const;
  void go_to(const Position& position);
  void take(std::unique_lock<std::mutex>& lock);
  void work(const std::stop_token& stop);

  const BatchSource& source_;
  LoaderOptions options_;
  double waited_seconds_ = 0;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable_any work_;
  std::condition_variable ready_;
  std::vector<BatchBuffer> buffers_;
  Position next_;           ///< where the next batch to be filled begins
  bool known_ = false;      ///< next_ is known; otherwise the batch before it is being filled
  bool more_ = false;       ///< next_ is known, and a batch follows it
  int64_t most_ = 0;        ///< batches to be read
  int64_t taken_ = 0;       ///< batches that are or were being filled, since start()
  int64_t held_ = 0;        ///< the oldest batch whose buffer is in use: the one returned last
  int64_t given_ = 0;       ///< the next batch that next() will return
  int64_t filling_ = 0;     ///< buffers being filled
  std::stop_source reads_;  ///< ends reads that wait for samples; one for each start()
  /// the last batch took so little time to fill that next() fills the following one itself
  bool cheap_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace telar
