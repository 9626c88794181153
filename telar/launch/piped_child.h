#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telar/observe/child_process.h"

namespace telar {

/// One end of a pipe. The children of this process do not inherit it.
class PipeEnd {
 public:
  explicit PipeEnd(int file = -1) : file_(file) {}
  ~PipeEnd() { close(); }
  PipeEnd(PipeEnd&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  PipeEnd& operator=(PipeEnd&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;
  int file() const { return file_; }
  void close();

 private:
  int file_;
};

/// A child of this process, with pipes to its standard input and from its standard output. It is not ended
/// with this object.
class PipedChild {
 public:
  /// `input`: what it is given at once. Throws Error.
  explicit PipedChild(ChildStart what, const std::string& input = {});

  int pid() const { return pid_; }
  /// Returns false if it does not read any more.
  bool write(const std::string& text);
  void close_input() { input_.close(); }
  /// How it has ended, as a shell reports it; none: it has not. Ask before the last read_lines().
  std::optional<int> code();
  /// Closes its input, and waits until it has ended. After `last` it is killed, with what it has started.
  void end(std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now() + kEndsWithin);
  static constexpr std::chrono::seconds kEndsWithin{10};
  /// The lines that have come since the last call. When it has ended, also one that it has not ended.
  std::vector<std::string> read_lines();

 private:
  int pid_ = -1;
  PipeEnd input_;
  PipeEnd output_;
  std::string begun_;  ///< of a line that it has not ended
  std::optional<int> code_;
};

}  // namespace telar
