#pragma once

#include <gtest/gtest.h>

#include "telar/comm/processes.h"

/// Tests that run in 2, 3 and 4 processes, which mpirun starts or which join each other (comm/peers).
namespace telar::test {

/// Whether this program runs in several processes.
bool started_together();
/// The processes of this program. They are joined only once, because a process can initialise MPI only once.
Processes& processes();

class StartedTogether : public testing::Test {
 protected:
  void SetUp() override {
    if (!started_together()) GTEST_SKIP() << "NOT TESTED: not started in several processes";
  }
};

}  // namespace telar::test
