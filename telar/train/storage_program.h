#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace telar {

/// How long a copy of a StorageProgram may read, write and compute nothing until it is killed.
struct StoragePatience {
  std::chrono::milliseconds of_copy = std::chrono::minutes(5);   ///< it is begun again once
  std::chrono::milliseconds at_stop = std::chrono::seconds(30);  ///< it is not begun again
  std::chrono::milliseconds all_at_stop = std::chrono::minutes(
      4);  ///< until all calls are: less than what else kills a run that is asked to stop
};

/// A folder in a place that outlives this host, behind a program that knows how to reach it. No path in it
/// contains spaces. Except for the constructor, all functions throw Error (run) with what the program says.
class StorageProgram {
 public:
  /// `place`: s3://BUCKET/FOLDER (rclone if it is on the PATH, otherwise aws), REMOTE:FOLDER of rclone's
  /// configuration, or the absolute path of a folder (cp). Throws Error (user) if it is none of these.
  /// `warn` is told when a copy is begun again. `stop`: whether all that runs is broken off. `ends`: whether
  /// the run is being stopped, so that the first call that is killed is the last one. Called from any thread.
  explicit StorageProgram(std::string place, std::function<void(const std::string&)> warn = {},
                          StoragePatience patience = {}, std::function<bool()> stop = {},
                          std::function<bool()> ends = {});

  const std::string& place() const { return place_; }
  /// Of this machine; empty: it is elsewhere.
  std::filesystem::path folder() const { return root_.starts_with('/') ? root_ : std::string(); }
  /// Throws Error (user) unless the program is on the PATH.
  void require() const;
  /// The names in a folder (empty: this one); those of folders end with "/". None if it is not there.
  std::vector<std::string> list(const std::string& folder = "") const;
  std::string read(const std::string& file) const;
  /// Replaces a small file, at once.
  void write(const std::string& file, const std::string& text) const;
  /// Adds what is in `from` to a folder; empty: this one.
  void put(const std::filesystem::path& from, const std::string& folder) const;
  /// Adds what is in a folder to `to`.
  void get(const std::string& folder, const std::filesystem::path& to) const;
  void remove_file(const std::string& file) const;
  void remove_folder(const std::string& folder) const;
  /// Waits, between two looks at what is there.
  void rest(std::chrono::milliseconds time) const;

 private:
  /// Scripts of the shell: $1 is a path in the place, $2 a folder of this host, or a text.
  struct Scripts {
    const char* program;
    const char* list;
    const char* read;
    const char* write;
    const char* put;
    const char* get;
    const char* remove_file;
    const char* remove_folder;
  };
  static const Scripts kRclone;
  static const Scripts kAws;
  static const Scripts kCp;

  void default_to(const char* name, const std::string& value);
  bool is_stopped() const { return stop_ && stop_(); }
  bool ends() const;
  std::string path_of(const std::string& entry) const { return entry.empty() ? root_ : root_ + "/" + entry; }
  enum class Ends : uint8_t { within_a_minute, when_it_stalls, when_it_stalls_again };
  std::string run(const char* what, const char* script, const std::string& path,
                  const std::string& second = "", Ends ending = Ends::within_a_minute) const;

  std::string place_;    ///< as it was given, for messages
  std::string root_;     ///< as the program calls it
  std::string missing_;  ///< why there is no program; empty: there is one
  const Scripts* scripts_;
  std::function<void(const std::string&)> warn_;
  StoragePatience patience_;
  std::function<bool()> stop_;
  std::function<bool()> ends_;
  using Clock = std::chrono::steady_clock;
  mutable std::atomic<Clock::time_point> ends_since_ = Clock::time_point();  ///< zero: it does not end
  mutable std::atomic<bool> given_up_ = false;  ///< a call did not answer when the run was being stopped
  std::map<std::string, std::string> environment_ = {{"TELAR_TOKEN", ""}};
};

}  // namespace telar
