#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace telar {

/// More updates than a server can apply. A larger number in a file or a message is a damaged one.
inline constexpr int64_t kMostUpdates = int64_t{1} << 53;

/// What a server's restarts have cost since it was created.
struct StoreLosses {
  int64_t restarts = 0;  ///< after which it continued from its snapshot
  int64_t updates = 0;   ///< lost by them: applied after the snapshot
  int64_t unknown = 0;   ///< restarts of which it is not known how many updates they have cost
  bool operator==(const StoreLosses&) const = default;

  StoreLosses with(const StoreLosses& more) const;
  /// What at least one restart has added to `before`. If the numbers cannot follow those, the server's count
  /// was lost meanwhile: one restart with an unknown cost.
  StoreLosses since(const StoreLosses& before) const;
};

/// Counts a server's updates in the file FOLDER/store.updates, written at every update, so that the count
/// survives a kill and a restarted server knows how many updates its snapshot lacks. The file names the job
/// and has a checksum. Without a file for this job that is intact and not older than the snapshot, the number
/// is unknown. (A crash of the whole machine may lose the last seconds of the count. If no snapshot was saved
/// in these seconds, the number is too low.) Without a folder it counts nothing. Thread-safe.
class StoreLedger {
 public:
  /// `say` receives a sentence if the file cannot be written; the training continues.
  StoreLedger(const std::filesystem::path& folder, std::function<void(const std::string&)> say);

  /// The server has been created for a new job.
  void begin(const std::string& job);
  struct Lost {
    std::optional<int64_t> updates;
    std::string why;  ///< why the number is unknown
  };
  /// The server continues from a snapshot in which the newest version is `version`. Returns the number of
  /// updates that it lacks.
  Lost continue_from(const std::string& job, int64_t version);
  /// A range has reached this version.
  void reached(int64_t version);
  StoreLosses losses() const;

 private:
  /// The contents of the file, 8 bytes each, little-endian.
  struct Record {
    uint64_t job = 0;  ///< checksum of its id
    int64_t newest = 0;
    StoreLosses losses;
    uint64_t checksum = 0;  ///< of the other fields
  };
  static uint64_t checksum_of(const Record& record);
  /// Returns why the file cannot be used, or an empty text.
  std::string read(uint64_t job, int64_t version);
  void write();

  const std::filesystem::path path_;
  const std::function<void(const std::string&)> say_;
  mutable std::mutex mutex_;  ///< guards record_, file_ and failed_
  Record record_;
  std::ofstream file_;
  std::atomic<int64_t> newest_{0};
  bool failed_ = false;
};

}  // namespace telar
