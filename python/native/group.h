#pragma once

#include <memory>
#include <string>

#include "telar/comm/network.h"
#include "telar/comm/processes.h"

namespace telar::python {

/// Processes that were started by anything and train one module together.
class PythonGroup {
 public:
  /// Waits, without Python's lock, until all `processes` have come. The first that can listen at `address`
  /// has rank 0; the others join it. Throws Error, and what Python's handlers of signals raise.
  PythonGroup(const std::string& address, int processes, const Security& security, double patience_seconds);
  /// The others fail if they wait for this process. Without Python's lock.
  ~PythonGroup();
  PythonGroup(const PythonGroup&) = delete;
  PythonGroup& operator=(const PythonGroup&) = delete;

  Processes& processes() const { return *processes_; }
  /// For what needs them longer than the group is there.
  std::shared_ptr<Processes> shared() const { return processes_; }

 private:
  std::shared_ptr<Processes> processes_;
};

}  // namespace telar::python
