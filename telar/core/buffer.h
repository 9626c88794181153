#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace telar {

/// Every tensor in a buffer starts at a multiple of this many bytes (a cache line, an AVX-512 register).
inline constexpr size_t kAlignment = 64;

inline constexpr size_t align_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Owned host memory, 64-byte aligned, zeroed.
class Buffer {
 public:
  Buffer() = default;
  /// Throws Error (run), with the requested size, when the memory cannot be allocated.
  explicit Buffer(size_t bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_.get()), size_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_.get()), size_ / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

}  // namespace telar
