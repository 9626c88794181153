#include "telar/cli/together.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include "telar/cli/errors.h"

namespace telar::cli {

std::unique_ptr<Processes> join_together() {
  return join_processes([](const Error& error) { std::_Exit(report(error)); });
}

int run_together(Processes* processes, const std::function<int()>& work) {
  if (processes == nullptr) return work();
  processes->when_lost([processes](const Error& error) { processes->abort(report(error), error.what()); });
  try {
    return work();
  } catch (const std::exception& error) {
    if (processes->rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    const int code = report(error);
    processes->abort(code, error.what());
    return code;
  }
}

}  // namespace telar::cli
