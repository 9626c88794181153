#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "telar/core/buffer.h"
#include "telar/core/dtype.h"
#include "telar/core/latency_counts.h"
#include "telar/core/shape.h"

namespace telar {

/// A place between two batches of a source: bytes that only the source understands. They can be stored, and
/// mean the same in every process that trains together and when the program runs again. Of two positions of
/// one pass, the later one is the greater.
struct Position {
  std::string bytes;
  // The comparison with 0 that the compiler writes for <, clang-tidy takes for one with a null pointer.
  auto operator<=>(const Position&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A tensor that every batch of a source has.
struct BatchTensor {
  std::string name;  ///< of the graph's input: "x", "label", "mask"
  DType dtype = DType::f32;
  Shape shape;  ///< of one sample, without the batch axis; []: one number

  size_t sample_bytes() const;
  bool operator==(const BatchTensor&) const = default;
};

/// A batch in memory that is used again. Each tensor is contiguous and 64-byte aligned.
class Batch {
 public:
  explicit Batch(std::vector<BatchTensor> tensors);

  /// Makes room for `size` samples; the contents are undefined.
  void resize(int64_t size);
  int64_t size() const { return size_; }

  const std::vector<BatchTensor>& tensors() const { return tensors_; }
  /// [size, shape…] of the tensor's type. `index`: in tensors().
  std::byte* data(size_t index) { return memory_[index].data(); }
  /// The same by name; null if the batch has no such tensor.
  const std::byte* find(std::string_view name) const;
  /// The identity of each sample, the same in every pass and for every worker.
  std::span<int64_t> ids() { return ids_.as<int64_t>().first(static_cast<size_t>(size_)); }
  std::span<const int64_t> ids() const { return ids_.as<int64_t>().first(static_cast<size_t>(size_)); }

  uint32_t epoch = 0;  ///< for random numbers: dropout and augmentation
  /// Of samples that arrive one after another: when each did, in milliseconds since 1970, if it is known.
  std::vector<int64_t> arrived;
  int64_t all_samples = 0;  ///< in the batch of all workers, of which this is one worker's share
  Position at;
  Position after;

 private:
  std::vector<BatchTensor> tensors_;
  std::vector<Buffer> memory_;
  Buffer ids_;
  int64_t size_ = 0;
};

/// From the arrival of samples (Batch::arrived) until now, by the clock of this host.
LatencyCounts latency_since(std::span<const int64_t> arrived);

/// The size of a pass over the samples, all workers together.
struct PassSize {
  int64_t batches = 0;
  int64_t samples = 0;
};

/// Thrown by a read that waited for samples and was told to stop.
struct ReadStopped {};

/// Batches, one after another: position in, batch out. A source has no current position; whoever reads keeps
/// it, and a checkpoint stores it. A source may have an end, after which further passes (epochs) read the
/// samples again, or none. Thread-safe.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// The tensors of every batch.
  virtual const std::vector<BatchTensor>& tensors() const = 0;

  /// Where a pass begins. A source without an end has one pass, 0; Error (run) for others.
  virtual Position begin(uint32_t pass) const = 0;

  /// The position after `batches` batches of a pass, if the source can say so without reading them.
  virtual std::optional<Position> find(uint32_t pass, int64_t batches) const = 0;

  /// The size of a pass; none if there is no end, or none that is known before it is reached.
  virtual std::optional<PassSize> size(uint32_t pass) const = 0;

  /// Whether no batch follows, at present: a source may receive more. Throws Error (user) for a position that
  /// is not one of this source.
  virtual bool at_end(const Position& position) const = 0;

  /// The position after the batch that follows, if that is known before it is read. Then several batches are
  /// read at the same time, otherwise one after another.
  virtual std::optional<Position> after(const Position& position) const = 0;

  /// Reads this worker's share of the batch that follows the position, with batch.after. The share may have
  /// no samples. The same position always gives the same batch. Throws Error (user) for damaged samples, and
  /// ReadStopped if it waits for samples that do not exist yet when `stop` is requested.
  virtual void read(const Position& position, Batch& batch, const std::stop_token& stop) const = 0;
  void read(const Position& position, Batch& batch) const { read(position, batch, {}); }
};

}  // namespace telar
