#include "telar/observe/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace telar {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes it
  return value == nullptr ? "" : value;
}

std::string file_of(pid_t process, int descriptor) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", process, descriptor), error).string();
}

/// 0: unknown.
pid_t parent_of(pid_t process) {
  constexpr std::string_view kKey = "PPid:";
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kKey)) return std::atoi(line.c_str() + kKey.size());
  return 0;
}

/// mpirun is the nearest ancestor that writes elsewhere than this process; a script between the two does not.
/// On another host than mpirun's, the ancestor is a daemon without a terminal.
bool mpirun_writes_to_terminal(int descriptor) {
  const std::string own = file_of(::getpid(), descriptor);
  for (pid_t process = ::getppid(); process > 0; process = parent_of(process)) {
    const std::string file = file_of(process, descriptor);
    if (file != own) return file.starts_with("/dev/pts/") || file.starts_with("/dev/tty");
  }
  return false;
}

}  // namespace

bool can_redraw(int descriptor) {
  const std::string terminal = variable("TERM");
  if (::isatty(descriptor) != 1 || terminal.empty() || terminal == "dumb") return false;
  return variable("OMPI_COMM_WORLD_SIZE").empty() || mpirun_writes_to_terminal(descriptor);
}

bool can_colour(int descriptor) { return can_redraw(descriptor) && variable("NO_COLOR").empty(); }

}  // namespace telar
