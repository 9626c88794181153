#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace telar {

/// What a process of this machine is started with.
struct ChildStart {
  std::string name;                                ///< "worker 1", for messages
  std::vector<std::string> words;                  ///< program and arguments
  std::map<std::string, std::string> environment;  ///< beside this process's own
  std::filesystem::path log;                       ///< gets what it prints, after what is there
};

/// Starts it, without input, in a process group of its own, so that Ctrl-C reaches the one that started it alone. Returns its id. Throws
/// Error (run) when it cannot be started.
int start_child(const ChildStart& what);

/// "has ended with exit code 2", "was killed by signal 9": of the status that waitpid() gives.
std::string ending_text(int status);

/// The last lines of a log, at most so many.
std::string last_lines(const std::filesystem::path& log, size_t most);

}  // namespace telar
