#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace telar {

/// The log of a service. A thread of its own writes the lines, so nobody waits for a reader: a pipe that
/// nobody reads, or a stopped terminal, stops neither a connection nor a server. At most kMostLines wait;
/// further ones are dropped, and the log says how many once it is read again. Thread-safe.
class ServiceLog {
 public:
  static constexpr size_t kMostLines = 1000;
  /// How long the end of a service waits for the reader.
  static constexpr std::chrono::seconds kPatience{1};

  /// Writes to `descriptor`, which stays open until the program ends.
  explicit ServiceLog(int descriptor);
  /// Waits like finish().
  ~ServiceLog();
  ServiceLog(const ServiceLog&) = delete;
  ServiceLog& operator=(const ServiceLog&) = delete;

  /// Adds a line with the time of day.
  void line(const std::string& text);
  /// Call last. Waits up to kPatience for the lines to be written, and returns the exit code of a program
  /// that would otherwise end with `code`: if a write has failed, prints an error and returns 1 instead of 0.
  /// A reader that does not read, or has gone, is not an error.
  int finish(int code);

 private:
  class Writer;
  /// Shared with the thread, which may be within a write that never ends.
  std::shared_ptr<Writer> writer_;
};

}  // namespace telar
