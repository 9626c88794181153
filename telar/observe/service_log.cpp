#include "telar/observe/service_log.h"

#include <fmt/chrono.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <iostream>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace telar {

class ServiceLog::Writer {
 public:
  explicit Writer(int descriptor) : descriptor_(descriptor) {}

  void add(std::string line) {
    {
      const std::scoped_lock lock(mutex_);
      if (lines_.size() >= kMostLines) {
        ++dropped_;
        return;
      }
      lines_.push_back(std::move(line));
    }
    changed_.notify_all();
  }

  /// Writes lines until end().
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ended_ || !lines_.empty(); });
      if (lines_.empty()) break;
      std::string line = std::exchange(lines_.front(), {});
      lines_.pop_front();
      if (lines_.empty() && dropped_ > 0)
        line += fmt::format("({} lines were dropped, because nobody read this log)\n",
                            std::exchange(dropped_, 0));
      const bool write_it = failure_ == 0;
      lock.unlock();
      const int failure = write_it ? write(line) : 0;
      lock.lock();
      if (failure_ == 0) failure_ = failure;
    }
    done_ = true;
    changed_.notify_all();
  }

  /// Returns the reason why a write has failed (errno), or 0.
  int end() {
    std::unique_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience, [&] { return done_; });
    return failure_;
  }

 private:
  int write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written > 0) text.remove_prefix(static_cast<size_t>(written));
      if (written >= 0 || errno == EINTR) continue;
      if (errno != EAGAIN) return errno;
      pollfd stream{descriptor_, POLLOUT, 0};  // another program has made the shared stream non-blocking
      ::poll(&stream, 1, -1);
    }
    return 0;
  }

  const int descriptor_;
  std::mutex mutex_;  ///< guards the members below
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  size_t dropped_ = 0;
  bool ended_ = false;
  bool done_ = false;
  int failure_ = 0;
};

ServiceLog::ServiceLog(int descriptor) : writer_(std::make_shared<Writer>(descriptor)) {
  std::thread([writer = writer_] { writer->run(); }).detach();
}

ServiceLog::~ServiceLog() { writer_->end(); }

void ServiceLog::line(const std::string& text) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  writer_->add(
      fmt::format("{:%H:%M:%S} {}\n", fmt::localtime(std::chrono::system_clock::to_time_t(now)), text));
}

int ServiceLog::finish(int code) {
  const int failure = writer_->end();
  if (failure == 0 || failure == EPIPE || failure == EIO) return code;
  std::cerr << "error: cannot write to standard output: "
            << std::strerror(failure)  // NOLINT(concurrency-mt-unsafe): glibc's is safe for known numbers
            << "; what was printed is incomplete" << std::endl;
  return code == 0 ? 1 : code;
}

}  // namespace telar
