#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "telar/train/storage_program.h"

namespace telar {

/// Which process stores a run in a place: one at a time. Each writes a file there, "owner-00000007-ID", whose
/// number is one more than the greatest that it has found; the owner is the greatest name of all. It writes
/// its file again at times. Whoever finds it can thus see without comparing clocks whether its process lives.
/// Who has written its first file looks whether others have done so since it looked last: of two, at least
/// one finds the other, and takes its own away.
class StorageOwner {
 public:
  struct Times {
    std::chrono::milliseconds renewal = std::chrono::seconds(20);
    std::chrono::milliseconds patience =
        std::chrono::seconds(180);  ///< some renewals, as a call may take a minute
  };
  /// `warn` may be called from any thread.
  StorageOwner(const StorageProgram& program, std::function<void(const std::string&)> warn, Times times);
  /// Notes that its process has ended.
  ~StorageOwner();
  StorageOwner(const StorageOwner&) = delete;
  StorageOwner& operator=(const StorageOwner&) = delete;

  /// Becomes the owner. If the one before has not noted its end, waits until it has not renewed its file for
  /// so long, and says so, unless it was on this host and is gone. Throws Error (run) if it lives, or another
  /// one becomes the owner meanwhile.
  void claim(const std::function<void(const std::string&)>& say);
  /// Becomes the owner after a process that is known to store nothing more. Its file is there soon. `rank`:
  /// of this process; those that try it one after the other have growing ones.
  void succeed(const std::string& former, int rank);
  /// Of its file; empty: it is no owner.
  const std::string& name() const { return name_; }
  /// Reads the names that are there. Throws Error (run) if that fails, and what require() throws.
  void check();
  /// Throws Error (user) if another process was found to be the owner.
  void require() const;

 private:
  enum class Found : uint8_t { ended, silent, alive };
  std::vector<std::string> watch_all(const std::function<void(const std::string&)>& say) const;
  Found watch(const std::string& name, const std::function<void(const std::string&)>& say) const;
  bool is_there(const std::string& name) const;
  std::optional<std::string> read_if_there(const std::string& name) const;
  void renew(const std::stop_token& stop, int64_t count, std::string former);
  std::string lost_to(const std::string& other) const;

  const StorageProgram& program_;
  std::function<void(const std::string&)> warn_;
  Times times_;
  std::string name_;  ///< of the file that it has, or may have, written; empty: it has not claimed
  mutable std::mutex mutex_;
  std::string lost_;  ///< why it is not the owner any more: a sentence
  std::condition_variable_any ends_;
  std::jthread renewals_;
};

}  // namespace telar
