#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace telar::cli {

/// What `telar weave --run` starts: a woven script by its target's launcher.
struct Launch {
  std::filesystem::path script;
  std::string target;  ///< ddp, horovod, tf-distribute
  int processes = 1;
  std::vector<std::string> arguments;  ///< the script's own
};

/// Starts it: by PyTorch's launcher, by horovodrun, or, since tf.distribute has none, as so many processes that find each other
/// by TF_CONFIG on this host. Returns the exit code, of several processes that of the first that failed. Throws Error (user)
/// when the launcher is not there.
int launch(const Launch& what);

/// Writes a woven script beside the one that it was made of (its imports and data paths stay right), starts it, and removes it
/// again. `what.script` is the original.
int launch_beside(const Launch& what, const std::string& woven);

}  // namespace telar::cli
