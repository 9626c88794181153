#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "io/temp_folder.h"
#include "support/paths.h"

namespace telar::test {

struct CommandResult {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs `PREFIX telar ARGUMENTS` (a shell splits and expands them) in a folder.
inline CommandResult telar_in(const std::filesystem::path& folder, const std::string& arguments,
                              const std::string& prefix = "") {
  const TempFolder captured;
  const std::string out = (captured / "out").string();
  const std::string err = (captured / "err").string();
  const std::string line = "cd '" + folder.string() + "' && " + prefix + " '" + telar_program() + "' " +
                           arguments + " >'" + out + "' 2>'" + err + "'";
  const int status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out), read_text(err)};
}

}  // namespace telar::test
