#include "telar/launch/child_engine.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "telar/core/error.h"

namespace telar {

namespace {

using namespace std::chrono_literals;

constexpr auto kEndsWithin = 10s;

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
  void close() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }

 private:
  int file_;
};

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

struct ChildEngine::Child {
  int process = 0;
  LaunchSlot slot;
  pid_t pid = -1;
  PipeEnd input;           ///< to its standard input, which ends when this is closed
  PipeEnd output;          ///< of its standard output
  std::string begun = {};  ///< of a line that it has not ended
};

ChildEngine::ChildEngine() = default;

ChildEngine::~ChildEngine() {
  for (const auto& child : children_)
    if (child) child->input.close();
  const auto end = std::chrono::steady_clock::now() + kEndsWithin;
  for (const auto& child : children_) {
    if (!child) continue;
    while (::waitpid(child->pid, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) ::kill(-child->pid, SIGKILL);
      std::this_thread::sleep_for(10ms);
    }
  }
}

int ChildEngine::start(const LaunchSlot& slot, const LaunchCommand& command) {
  Launched what = launched(slot, command);
  Pipe input;
  Pipe output;
  what.start.input = input.reader.file();
  what.start.output = output.writer.file();
  ::fcntl(output.reader.file(), F_SETFL, O_NONBLOCK);
  const auto size = static_cast<ssize_t>(what.input.size());
  if (::write(input.writer.file(), what.input.data(), what.input.size()) != size)
    throw run_error("{} cannot be given its token", what.start.name);
  auto child = std::make_unique<Child>(Child{.process = static_cast<int>(children_.size()),
                                             .slot = slot,
                                             .pid = start_child(what.start),
                                             .input = std::move(input.writer),
                                             .output = std::move(output.reader)});
  children_.push_back(std::move(child));
  return children_.back()->process;
}

void ChildEngine::read_lines(Child& child, std::vector<LaunchEvent>& events) {
  std::array<char, 4096> bytes{};
  for (ssize_t count = 0; (count = ::read(child.output.file(), bytes.data(), bytes.size())) > 0;)
    child.begun.append(bytes.data(), static_cast<size_t>(count));
  for (size_t end = 0; (end = child.begun.find('\n')) != std::string::npos; child.begun.erase(0, end + 1))
    events.push_back({.process = child.process, .line = child.begun.substr(0, end), .ended = {}});
}

std::vector<LaunchEvent> ChildEngine::poll() {
  std::vector<LaunchEvent> events;
  for (auto& child : children_) {
    if (!child) continue;
    int status = 0;
    const bool ended = ::waitpid(child->pid, &status, WNOHANG) == child->pid;
    read_lines(*child, events);
    if (!ended) continue;
    if (!child->begun.empty())
      events.push_back({.process = child->process, .line = child->begun, .ended = {}});
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    events.push_back({.process = child->process, .ended = ending(child->slot, code)});
    child.reset();
  }
  return events;
}

void ChildEngine::stop(int process, bool at_once) {
  const auto& child = children_.at(static_cast<size_t>(process));
  if (!child) return;
  child->input.close();
  if (at_once) ::kill(-child->pid, killing_signal());
}

int ChildEngine::killing_signal() const { return SIGKILL; }

}  // namespace telar
