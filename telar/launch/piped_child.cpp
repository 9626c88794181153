#include "telar/launch/piped_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "telar/core/error.h"

namespace telar {

namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw run_error("no pipe to a process could be made: {}",
                      std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
    reader = PipeEnd(ends[0]);
    writer = PipeEnd(ends[1]);
  }
  PipeEnd reader;
  PipeEnd writer;
};

}  // namespace

void PipeEnd::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

PipedChild::PipedChild(ChildStart what, const std::string& input) {
  Pipe to;
  Pipe from;
  what.input = to.reader.file();
  what.output = from.writer.file();
  ::fcntl(from.reader.file(), F_SETFL, O_NONBLOCK);
  input_ = std::move(to.writer);
  output_ = std::move(from.reader);
  if (!write(input)) throw run_error("{} cannot be given its token", what.name);
  pid_ = start_child(what);
}

bool PipedChild::write(const std::string& text) {
  return ::write(input_.file(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::optional<int> PipedChild::code() {
  int status = 0;
  if (!code_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

void PipedChild::end(std::chrono::steady_clock::time_point last) {
  close_input();
  for (; !code(); std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    if (std::chrono::steady_clock::now() > last) ::kill(-pid_, SIGKILL);
}

std::vector<std::string> PipedChild::read_lines() {
  std::array<char, 4096> bytes{};
  for (ssize_t count = 0; (count = ::read(output_.file(), bytes.data(), bytes.size())) > 0;)
    begun_.append(bytes.data(), static_cast<size_t>(count));
  std::vector<std::string> lines;
  for (size_t end = 0; (end = begun_.find('\n')) != std::string::npos; begun_.erase(0, end + 1))
    lines.push_back(begun_.substr(0, end));
  if (code_ && !begun_.empty()) lines.push_back(std::exchange(begun_, {}));
  return lines;
}

}  // namespace telar
