#pragma once

#include <gtest/gtest.h>

#include "telar/comm/processes.h"

/// These tests are run by mpirun, with 2, 3 and 4 processes.
namespace telar::test {

/// Whether mpirun has started this program.
bool started_by_mpi();
/// Those of this program: MPI can be started once a process.
Processes& processes();

class StartedByMpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!started_by_mpi()) GTEST_SKIP() << "NOT TESTED: not started by mpirun";
  }
};

}  // namespace telar::test
