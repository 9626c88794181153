#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace telar::cli {

/// What `telar weave --run` starts: a woven script, by the launcher of its target.
struct Launch {
  std::filesystem::path script;
  std::string target;  ///< ddp, horovod, tf-distribute
  int processes = 1;
  std::vector<std::string> arguments;  ///< of the script
};

/// Starts a woven script by PyTorch's launcher or by horovodrun. tf.distribute has no launcher, so its
/// processes are started here and find each other on this host by TF_CONFIG. Returns the exit code; of
/// several processes, that of the first that failed. Throws Error (user) if the launcher is missing.
int launch(const Launch& what);

/// Writes a woven script to the folder of the original, so that imports and data paths stay valid, starts it,
/// and removes it again. `what.script` is the original.
int launch_beside(const Launch& what, const std::string& woven);

/// Starts a program with its arguments and waits for it. Returns its exit code. A request to stop is passed
/// on. Throws Error (user) if there is no such program.
int run_program(const std::vector<std::string>& words);

}  // namespace telar::cli
