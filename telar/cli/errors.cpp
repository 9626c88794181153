#include "telar/cli/errors.h"

#include <iostream>

#include "telar/core/error.h"

namespace telar::cli {

int exit_code(const std::exception& error) {
  constexpr int kRunFailed = 1;
  constexpr int kUserMistake = 2;
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr && ours->kind() == Error::Kind::user ? kUserMistake : kRunFailed;
}

int report(const std::exception& error) {
  std::cerr << "error: " << error.what() << std::endl;
  return exit_code(error);
}

}  // namespace telar::cli
