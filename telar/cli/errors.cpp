#include "telar/cli/errors.h"

#include <iostream>
#include <new>
#include <system_error>

#include "telar/core/error.h"
#include "telar/core/memory_limit.h"

namespace telar::cli {

int exit_code(const std::exception& error) {
  constexpr int kRunFailed = 1;
  constexpr int kUserMistake = 2;
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr && ours->kind() == Error::Kind::user ? kUserMistake : kRunFailed;
}

int report(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return report(out_of_memory(""));
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return report(run_error(
        "a thread could not be started ({}); a limit of processes (ulimit -u) or of memory (ulimit -v) may be reached",
        error.what()));
  std::cerr << "error: " << error.what() << std::endl;
  return exit_code(error);
}

}  // namespace telar::cli
