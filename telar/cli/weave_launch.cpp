#include "telar/cli/weave_launch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

namespace {

namespace fs = std::filesystem;

constexpr StopRequest::Messages kQuitting = {
    nullptr, "quitting at once; temporary files of the woven script remain\n"};

/// A file that is removed when the launch is over.
class TemporaryScript {
 public:
  TemporaryScript(const fs::path& script, const std::string& text)
      : path_(script.parent_path() /
              (script.stem().string() + ".woven-" + std::to_string(::getpid()) + ".py")) {
    write_file(path_, text);
  }
  ~TemporaryScript() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TemporaryScript(const TemporaryScript&) = delete;
  TemporaryScript& operator=(const TemporaryScript&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

pid_t start(std::vector<std::string> words, const std::string& variable = {}) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::string own = variable;
  std::vector<char*> environment;
  for (char** one = ::environ; *one != nullptr; ++one) environment.push_back(*one);
  if (!own.empty()) environment.insert(environment.begin(), own.data());
  environment.push_back(nullptr);
  pid_t child = 0;
  const int failure =
      ::posix_spawnp(&child, pointers[0], nullptr, nullptr, pointers.data(), environment.data());
  if (failure != 0) {
    throw user_error(
        "{} cannot be started ({}); install it, or write the woven script with --output and start it yourself",
        words[0],
        std::strerror(failure));  // NOLINT(concurrency-mt-unsafe): one thread
  }
  return child;
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/// Waits until one of the processes has ended, removes it from the list, and returns its status. A signal to
/// stop is passed on, except Ctrl-C, which the terminal sends to all of them. So this process outlives them
/// and can remove its temporary files.
int wait_for_next(std::vector<pid_t>& running, const StopRequest& stop) {
  for (bool passed_on = false;;) {
    for (const pid_t process : running) {
      int status = 0;
      if (::waitpid(process, &status, WNOHANG) == 0) continue;
      std::erase(running, process);
      return status;
    }
    if (stop.requested() && stop.signal_number() != SIGINT && !std::exchange(passed_on, true)) {
      for (const pid_t process : running) ::kill(process, stop.signal_number());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// Different ports of this host that are currently free.
std::vector<int> free_ports(int count) {
  std::vector<int> sockets;
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) {
    sockets.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(sockets.back(), any, size) != 0 || ::getsockname(sockets.back(), any, &size) != 0)
      throw run_error("this host has no free port");
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int socket : sockets) ::close(socket);
  return ports;
}

/// The workers of tf.distribute: each process gets the addresses of all in TF_CONFIG.
int launch_workers(const std::vector<std::string>& words, int processes, const StopRequest& stop) {
  std::string workers;
  for (const int port : free_ports(processes))
    workers += fmt::format("{}\"127.0.0.1:{}\"", workers.empty() ? "" : ", ", port);
  std::vector<pid_t> running;
  for (int worker = 0; worker < processes; ++worker) {
    running.push_back(start(
        words,
        fmt::format(
            "TF_CONFIG={{\"cluster\": {{\"worker\": [{}]}}, \"task\": {{\"type\": \"worker\", \"index\": {}}}}}",
            workers, worker)));
  }
  int code = 0;
  while (!running.empty()) {
    const int status = wait_for_next(running, stop);
    if (code != 0 || code_of(status) == 0) continue;
    // The others would wait for the failed one.
    code = code_of(status);
    for (const pid_t other : running) ::kill(other, SIGTERM);
  }
  return code;
}

}  // namespace

int launch(const Launch& what) {
  const std::string count = std::to_string(what.processes);
  std::vector<std::string> words = {"python3"};
  if (what.target == "horovod") words = {"horovodrun", "-np", count, "python3"};
  if (what.target == "ddp") {
    // PyTorch 1.13 under Python 3.11 fails on its own defaults of the last two options, because iterating
    // their IntFlag no longer yields zero. Given for a process that does not exist, they change nothing.
    const std::string none = count + ":1";
    words = {"python3",
             "-m",
             "torch.distributed.run",
             "--standalone",
             "--nproc_per_node",
             count,
             "--tee",
             none,
             "--redirects",
             none};
  }
  words.push_back(what.script.string());
  words.insert(words.end(), what.arguments.begin(), what.arguments.end());
  if (what.target == "tf-distribute" && what.processes > 1) {
    const StopRequest stop(kQuitting);
    return launch_workers(words, what.processes, stop);
  }
  return run_program(words);
}

int run_program(const std::vector<std::string>& words) {
  const StopRequest stop(kQuitting);
  std::vector<pid_t> running = {start(words)};
  return code_of(wait_for_next(running, stop));
}

int launch_beside(const Launch& what, const std::string& woven) {
  const TemporaryScript file(what.script, woven);
  Launch own = what;
  own.script = file.path();
  return launch(own);
}

}  // namespace telar::cli
