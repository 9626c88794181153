#include "telar/cli/errors.h"

#include <iostream>

#include "telar/core/memory_limit.h"

namespace telar::cli {

int exit_code(const std::exception& error) {
  constexpr int kRunFailed = 1;
  constexpr int kUserMistake = 2;
  return as_error(error).kind() == Error::Kind::user ? kUserMistake : kRunFailed;
}

int report(const std::exception& error) {
  std::cerr << "error: " << as_error(error).what() << std::endl;
  return exit_code(error);
}

}  // namespace telar::cli
