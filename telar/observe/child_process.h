#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace telar {

/// How to start a process on this machine.
struct ChildStart {
  std::string name;                                ///< "worker 1", for messages
  std::vector<std::string> words;                  ///< the program and its arguments
  std::map<std::string, std::string> environment;  ///< in addition to this process's environment
  std::filesystem::path log;  ///< its output is appended here; empty: it goes where this process's own goes
  int input = -1;             ///< an open file that becomes its standard input; -1: it has none
  int output = -1;            ///< an open file that becomes its standard output if `log` is empty; -1: none
  int errors =
      -1;  ///< an open file that becomes its standard error if `log` is empty; -1: this process's own
  std::function<bool(int code)> may_leave =
      {};  ///< whether it is not restarted if it ends with this exit code
  /// Called when it ends, from any thread, for what LocalProcesses::check() then says about it: why nothing
  /// can continue without it. Empty: it is restarted.
  std::function<std::string()> irreplaceable = {};
};

/// Starts a process, without standard input unless `input` is given, in its own process group, so that Ctrl-C
/// reaches only its parent. Returns its process id. Throws Error (run) if it cannot be started.
int start_child(const ChildStart& what);

/// Starts a process and waits until it has ended. Returns its status, as waitpid() gives it. Its group is
/// killed when this process ends at once (StopRequest), or when `goes_on`, which is called often with the id
/// of the group, is false. Throws Error.
int run_child(const ChildStart& what, const std::function<bool(int group)>& goes_on = {});

/// Describes a status from waitpid(): "has ended with exit code 2", "was killed by signal 9".
std::string ending_text(int status);

/// The last lines of a log, at most `most`.
std::string last_lines(const std::filesystem::path& log, size_t most);

}  // namespace telar
