#pragma once

#include <atomic>
#include <cstddef>

namespace telar {

/// Accounts for the bytes that a server holds beside its arenas: incomplete sums and frames in transit.
/// Thread-safe.
class StoreAccount {
 public:
  /// Counts `bytes` for the lifetime of this object.
  class Entry {
   public:
    Entry(StoreAccount& account, size_t bytes) : account_(&account), bytes_(bytes) { account.add(bytes); }
    ~Entry() { account_->now_ -= bytes_; }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    StoreAccount* account_;
    size_t bytes_;
  };

  /// Counts bytes that are never freed.
  void add(size_t bytes) {
    const size_t now = now_ += bytes;
    size_t most = most_;
    while (most < now && !most_.compare_exchange_weak(most, now)) {
    }
  }
  size_t most() const { return most_; }

 private:
  std::atomic<size_t> now_{0};
  std::atomic<size_t> most_{0};
};

}  // namespace telar
