#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "telar/core/buffer.h"
#include "telar/data/assignment.h"
#include "telar/data/dataset.h"

namespace telar {

struct LoaderOptions {
  int threads = 1;    ///< background threads for batches that take long to read; with 0, next() reads all
  int prefetch = 2;   ///< batches read ahead of the one in use; at least 1 unless threads is 0
  uint64_t seed = 0;  ///< seed of the augmentation
};

/// One worker's samples of one step; each part is contiguous and 64-byte aligned.
struct Batch {
  int64_t size = 0;  ///< number of samples; 0 when the worker has none in this step
  uint32_t epoch = 0;
  int64_t step = 0;
  std::byte* features = nullptr;  ///< [size, spec.features…] of the spec's dtype
  std::byte* labels = nullptr;    ///< [size] i32 classes, or [size, spec.targets…] f32
  int64_t* samples = nullptr;     ///< [size] i64, indices in the dataset
};

/// Reads the batches of an assignment, ahead of their use, into memory that is reused. Batches that take only
/// microseconds (data in memory) are read when requested, so they do not keep a second thread busy. Dataset
/// and assignment must outlive the loader. Only one thread may call start() and next().
///
///     Loader loader(data, assignment, {.threads = 1, .prefetch = 2, .seed = 7});
///     loader.start(epoch, 0);
///     while (const Batch* batch = loader.next()) train_on(*batch);
class Loader {
 public:
  /// Throws Error (user) for options out of range.
  Loader(const Dataset& data, const Assignment& assignment, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins an epoch at a step, whether or not the previous epoch was finished. Invalidates the current
  /// batch. Throws Error (run) for a step that the epoch does not have.
  void start(uint32_t epoch, int64_t first_step);

  /// Continues to the assignment's current number of steps, after steps were added to it.
  void extend();

  /// The next batch, in the order of steps; null at the end of the epoch. Valid until the next call of next()
  /// or start(). If reading the batch failed, throws that error, again on each further call.
  const Batch* next();

  /// Seconds that next() has waited for data since start().
  double waited_seconds() const { return waited_seconds_; }

 private:
  struct BatchBuffer {
    Buffer features;
    Buffer labels;
    Buffer samples;
    Batch batch;
    bool done = false;         ///< filled or failed; set under the mutex
    std::exception_ptr error;  ///< why it failed
  };

  BatchBuffer& buffer_of(int64_t step) { return buffers_[static_cast<size_t>(step) % buffers_.size()]; }
  bool wanted_in_background() const;
  void take(std::unique_lock<std::mutex>& lock);
  void work(const std::stop_token& stop);
  void fill(BatchBuffer& buffer, int64_t step);

  const Dataset& data_;
  const Assignment& assignment_;
  LoaderOptions options_;
  double waited_seconds_ = 0;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable_any work_;
  std::condition_variable ready_;
  std::vector<BatchBuffer> buffers_;
  uint32_t epoch_ = 0;
  int64_t end_ = 0;      ///< steps of the epoch
  int64_t taken_ = 0;    ///< the next step to be filled
  int64_t held_ = 0;     ///< the oldest step whose buffer is in use: the batch returned last
  int64_t given_ = 0;    ///< the next step that next() will return
  int64_t filling_ = 0;  ///< buffers being filled
  /// the last batch took so little time to fill that next() fills the following one itself
  bool cheap_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace telar
