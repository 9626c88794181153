#pragma once

#include <memory>

namespace telar::cli {

/// Standard output of the program: everything that is written to std::cout during the lifetime of this
/// object. It remembers the first write that fails, so that a result is never lost without a word. Closed
/// standard streams are opened on /dev/null first: otherwise the next file that the program opens would take
/// their numbers, and messages would be written into it.
class StandardOutput {
 public:
  StandardOutput();
  ~StandardOutput();
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  /// Writes what is left, and returns the exit code of a program that would otherwise end with `code`. If a
  /// write has failed, prints an error and returns 1 instead of 0. A reader that has gone (a closed pipe, a
  /// lost terminal) is not an error.
  int finish(int code);

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace telar::cli
