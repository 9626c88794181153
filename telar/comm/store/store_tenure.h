#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <set>

namespace telar {

/// Which coordinator a parameter server works for. The coordinator of a training in which no update may be
/// missing or repeated (of a stream) takes the server over when it creates the arenas: a tenure begins, with
/// a random number, and the streams of all others end. Its members name the number with every call. It is
/// neither in snapshots nor known to another server, so a member of an earlier part of the run, and a server
/// that was restarted, are refused instead of losing or repeating updates. Other trainings have no tenure
/// (0), and survive a restart. Thread-safe.
class StoreTenure {
 public:
  /// Begins a tenure, or without `taken` ends the present one. Ends the streams that are not of it, and waits
  /// until they have ended: nothing that they have sent is applied afterwards. Returns its number.
  uint64_t begin(bool taken);

  /// Throws Error (user), with the reason, if this is not the present tenure.
  void require(uint64_t tenure) const;

  /// A stream of the present tenure, for as long as this object lives. `cancel` makes it end; called from
  /// any thread. The constructor throws like require().
  class Stream {
   public:
    Stream(StoreTenure& owner, uint64_t tenure, std::function<void()> cancel);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

   private:
    friend class StoreTenure;
    StoreTenure& owner_;
    uint64_t tenure_;
    std::function<void()> cancel_;
    std::list<Stream*>::iterator place_;
  };

 private:
  /// The caller holds the mutex.
  void require_locked(uint64_t tenure) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t present_ = 0;
  std::set<uint64_t> former_;
  std::list<Stream*> streams_;
};

}  // namespace telar
