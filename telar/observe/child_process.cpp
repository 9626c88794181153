#include "telar/observe/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <thread>

#include "telar/core/error.h"
#include "telar/observe/stop_request.h"

namespace telar {

int start_child(const ChildStart& what) {
  std::vector<std::string> variables;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (!what.environment.contains(variable.substr(0, variable.find('=')))) variables.push_back(variable);
  }
  for (const auto& [name, value] : what.environment) variables.push_back(name + "=" + value);
  const auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
  };
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (what.input >= 0)
    posix_spawn_file_actions_adddup2(&files, what.input, STDIN_FILENO);
  else
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (what.output >= 0) posix_spawn_file_actions_adddup2(&files, what.output, STDOUT_FILENO);
  if (what.errors >= 0) posix_spawn_file_actions_adddup2(&files, what.errors, STDERR_FILENO);
  if (!what.log.empty()) {
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, what.log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0666);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int failure = ::posix_spawnp(&pid, what.words[0].c_str(), &files, &attributes,
                                     pointers(what.words).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failure == ENOENT || failure == EACCES)
    throw user_error(
        "{} cannot be started: {}: {}", what.name, what.words[0],
        std::strerror(failure));  // NOLINT(concurrency-mt-unsafe): glibc's is safe for known numbers
  if (failure != 0) {
    throw run_error(
        "{} cannot be started: {}: {}", what.name, what.words[0],
        std::strerror(failure));  // NOLINT(concurrency-mt-unsafe): glibc's is safe for known numbers
  }
  return pid;
}

int run_child(const ChildStart& what, const std::function<bool(int group)>& goes_on) {
  const int pid = start_child(what);
  const EndsWithThisProcess together(pid);
  for (int status = 0;; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    const int ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended < 0 && errno != EINTR)
      throw run_error("{} cannot be waited for: {}", what.name,
                      std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
    if (goes_on && !goes_on(pid)) ::kill(-pid, SIGKILL);
  }
}

std::string ending_text(int status) {
  if (WIFEXITED(status)) return fmt::format("has ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {}", WTERMSIG(status));
}

std::string last_lines(const std::filesystem::path& log, size_t most) {
  std::ifstream file(log);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > most) lines.pop_front();
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace telar
