#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "telar/cli/command_line.h"
#include "telar/weave/request.h"

namespace telar::cli {

/// The options of `telar weave --verify`; zero or empty: not given.
struct VerifyArguments {
  int steps = 0;           ///< of each pass over a loader
  int limit_samples = 0;   ///< of each data set
  int deadline = 0;        ///< seconds
  bool fake_data = false;  ///< random data in the place of data sets that are missing
  std::string woven;       ///< a file that is compared instead of what weave writes

  bool any_given() const {
    return steps > 0 || limit_samples > 0 || deadline > 0 || fake_data || !woven.empty();
  }
};

void add_verify_options(Verb& verb, VerifyArguments& arguments);

/// A sequential program and its woven form.
struct Verification {
  std::string title;             ///< the script, as the user names it
  std::filesystem::path folder;  ///< of the script or project
  std::string script;            ///< path within the folder
  std::vector<weave::WovenFile> woven;
  std::string target;  ///< ddp, horovod or tf-distribute
  bool is_pytorch = true;
  int processes = 2;
  bool keep_global_batch = false;
  bool divide_epochs = false;
  int warmup = 0;
  bool leaves_numbers = false;  ///< weave has left numbers that it could not join (--only-training)
  std::vector<std::string> script_arguments;
};

/// Runs both programs under observation (telar/weave/verify, by python3) and prints the comparison. Returns 0
/// if they agree, 1 if they differ, and 2 if the sequential program fails. Throws Error (user) if there is no
/// python3.
int verify(const Verification& what, const VerifyArguments& arguments);

}  // namespace telar::cli
