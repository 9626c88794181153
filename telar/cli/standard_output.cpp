#include "telar/cli/standard_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <string>

namespace telar::cli {

namespace {

void open_closed_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest free number, which is this one.
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
  }
}

}  // namespace

/// Has no put area, so all writes pass through xsputn() and overflow(), which lock: threads may write at the
/// same time.
class StandardOutput::Buffer final : public std::streambuf {
 public:
  Buffer() : terminal_(::isatty(STDOUT_FILENO) == 1), before_(std::cout.rdbuf(this)) {}
  ~Buffer() override { std::cout.rdbuf(before_); }

  /// The reason why a write failed (errno); 0: none has failed, or the reader has gone.
  int failure() {
    const std::scoped_lock lock(mutex_);
    const bool reader_gone = failure_ == EPIPE || (failure_ == EIO && terminal_);
    return reader_gone ? 0 : failure_;
  }

 protected:
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const std::scoped_lock lock(mutex_);
    waiting_.append(text, static_cast<size_t>(count));
    const bool line = terminal_ && std::memchr(text, '\n', static_cast<size_t>(count)) != nullptr;
    if (line || waiting_.size() >= kWriteAt) write_waiting();
    return failure_ == 0 ? count : 0;
  }

  int_type overflow(int_type character) override {
    const char text = traits_type::to_char_type(character);
    return xsputn(&text, 1) == 1 ? character : traits_type::eof();
  }

  int sync() override {
    const std::scoped_lock lock(mutex_);
    write_waiting();
    return failure_ == 0 ? 0 : -1;
  }

 private:
  static constexpr size_t kWriteAt = size_t{64} << 10;

  void write_waiting() {
    size_t done = 0;
    while (failure_ == 0 && done < waiting_.size()) {
      const ssize_t written = ::write(STDOUT_FILENO, waiting_.data() + done, waiting_.size() - done);
      if (written > 0) done += static_cast<size_t>(written);
      if (written >= 0 || errno == EINTR) continue;
      if (errno == EAGAIN) {  // another program has made the shared stream non-blocking
        pollfd stream{STDOUT_FILENO, POLLOUT, 0};
        ::poll(&stream, 1, -1);
      } else {
        failure_ = errno;
      }
    }
    waiting_.clear();
  }

  const bool terminal_;
  std::streambuf* const before_;
  std::mutex mutex_;  ///< guards the members below
  std::string waiting_;
  int failure_ = 0;
};

StandardOutput::StandardOutput() {
  open_closed_streams();
  buffer_ = std::make_unique<Buffer>();
}

StandardOutput::~StandardOutput() = default;

int StandardOutput::finish(int code) {
  std::cout.flush();
  const int failure = buffer_->failure();
  if (failure == 0) return code;
  std::cerr << "error: cannot write to standard output: "
            << std::strerror(failure)  // NOLINT(concurrency-mt-unsafe): glibc's is safe for known numbers
            << "; what was printed is incomplete" << std::endl;
  return code == 0 ? 1 : code;
}

}  // namespace telar::cli
