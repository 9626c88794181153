#include "telar/bench/child.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>

namespace telar::bench {

Child::~Child() {
  if (id_ >= 0) kill();
}

std::optional<int> Child::ended() {
  int status = 0;
  if (::waitpid(id_, &status, WNOHANG) != id_) return std::nullopt;
  id_ = -1;
  return status;
}

void Child::interrupt() const { ::kill(id_, SIGINT); }

void Child::interrupt_its_children() const {
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", id_));
  bool any = false;
  for (pid_t child = 0; file >> child; any = true) ::kill(child, SIGINT);
  if (!any) interrupt();
}

void Child::kill() {
  ::kill(-id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
  id_ = -1;
}

std::string sentence_in(const std::filesystem::path& log, const std::string& ending) {
  const std::string mark = "error: ";
  std::ifstream file(log);
  std::string sentence;
  for (std::string line; std::getline(file, line);) {
    if (sentence.empty() && line.starts_with(mark)) {
      sentence = line.substr(mark.size());
    } else if (!sentence.empty() && sentence.ends_with(':') && !line.empty()) {
      sentence += " " + line;  // the lines that the message announces
    }
  }
  if (sentence.empty()) {
    sentence = ending;
    if (const std::string lines = last_lines(log, 5); !lines.empty()) sentence += ": " + lines;
  }
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

}  // namespace telar::bench
