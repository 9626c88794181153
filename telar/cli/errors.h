#pragma once

#include <exception>

namespace telar::cli {

/// What an error is to the shell: 2 for a mistake of the user's, 1 for a failure of the run.
int exit_code(const std::exception& error);
/// Prints "error: …", and returns the exit code.
int report(const std::exception& error);

}  // namespace telar::cli
