#pragma once

#include <exception>

namespace telar::cli {

/// The exit code for an error: 2 for a user error, 1 for a failure of the run.
int exit_code(const std::exception& error);
/// Prints "error: …", and returns the exit code.
int report(const std::exception& error);

}  // namespace telar::cli
