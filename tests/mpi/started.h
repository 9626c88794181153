#pragma once

#include <gtest/gtest.h>

#include "telar/comm/processes.h"

/// Tests that mpirun starts with 2, 3 and 4 processes.
namespace telar::test {

/// Whether mpirun started this program.
bool started_by_mpi();
/// The processes of this program. They are joined only once, because a process can initialise MPI only once.
Processes& processes();

class StartedByMpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!started_by_mpi()) GTEST_SKIP() << "NOT TESTED: not started by mpirun";
  }
};

}  // namespace telar::test
