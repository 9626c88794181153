#include "telar/io/text_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "telar/core/error.h"
#include "telar/io/disk.h"

namespace telar {

namespace {

/// A descriptor, closed at the end unless it is the standard input.
class Source {
 public:
  Source(const std::filesystem::path& path, std::string_view what, std::chrono::milliseconds silence)
      : path_(path), what_(what), silence_(silence) {
    require_local(path);
    if (path != "-") descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor_ < 0) fail(errno);
  }
  ~Source() {
    if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void require_text() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail(errno);
    if (descriptor_ == STDIN_FILENO || S_ISREG(status.st_mode)) return;
    if (S_ISFIFO(status.st_mode)) {
      wait();  // until somebody writes; a read would report the end of a pipe that nobody has opened yet
      return;
    }
    throw user_error("{} {} is a {}; it must be a file, a pipe, or - for the standard input", what_,
                     path_.string(), S_ISDIR(status.st_mode) ? "folder" : "device or socket");
  }

  /// The next bytes; none at the end.
  std::string_view next() {
    for (;;) {
      const ssize_t count = ::read(descriptor_, piece_.data(), piece_.size());
      if (count >= 0) return {piece_.data(), static_cast<size_t>(count)};
      if (errno == EAGAIN) {
        wait();
      } else if (errno != EINTR) {
        fail(errno);
      }
    }
  }

 private:
  void wait() const {
    pollfd waiting{descriptor_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(silence_.count())) != 0) return;
    throw user_error("{} {} is a pipe that brought nothing for {:.3g} seconds", what_, path_.string(),
                     std::chrono::duration<double>(silence_).count());
  }

  [[noreturn]] void fail(int code) const {
    throw user_error("cannot read {} {}: {}", what_, path_.string(), std::generic_category().message(code));
  }

  const std::filesystem::path& path_;
  std::string_view what_;
  std::chrono::milliseconds silence_;
  int descriptor_ = STDIN_FILENO;
  std::array<char, 1 << 16> piece_{};
};

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::string_view what,
                           std::chrono::milliseconds silence) {
  Source source(path, what, silence);
  source.require_text();
  std::string text;
  for (std::string_view piece = source.next(); !piece.empty(); piece = source.next()) {
    text += piece;
    if (text.size() > kMostTextBytes) {
      throw user_error("{} {} has more than {}; such a text is never that long", what, path.string(),
                       bytes_text(kMostTextBytes));
    }
  }
  return text;
}

}  // namespace telar
