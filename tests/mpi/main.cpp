#include "mpi/started.h"

namespace telar::test {

namespace {

std::unique_ptr<Processes> joined;

}  // namespace

bool started_by_mpi() { return joined != nullptr; }
Processes& processes() { return *joined; }

}  // namespace telar::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  telar::test::joined = telar::join_processes();
  const int failed = RUN_ALL_TESTS();
  telar::test::joined.reset();
  return failed;
}
