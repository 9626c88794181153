#pragma once

#include <memory>
#include <stop_token>

#include "telar/comm/store/store.h"
#include "telar/graph/program.h"

namespace telar::test {

/// The two servers of a program as processes, each with a copy of what the other one holds. They are killed
/// in turn while members push, and started again. Each kill waits until both copies are there.
class CopiedServers {
 public:
  explicit CopiedServers(const StoreProgram& program);
  ~CopiedServers();
  CopiedServers(const CopiedServers&) = delete;
  CopiedServers& operator=(const CopiedServers&) = delete;

  /// The access of a member (0: the coordinator).
  std::unique_ptr<Store> connect(size_t server, uint32_t member, std::stop_token stop = {});
  /// After the first state is written. A server is killed at each `every`-th push from now on.
  void copy(int every);
  /// No server is killed any more. Returns how many were.
  int spare();

 private:
  class Impl;
  class Access;
  std::shared_ptr<Impl> impl_;
};

}  // namespace telar::test
