#include "mpi/started.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace telar::test {

namespace {

std::unique_ptr<Processes> joined;

/// Looks for leaks before OpenMPI unloads its plugins. Afterwards their leaks cannot be suppressed by name.
void look_for_leaks() {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_do_leak_check();
#endif
}

}  // namespace

bool started_by_mpi() { return joined != nullptr; }
Processes& processes() { return *joined; }

}  // namespace telar::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  telar::test::joined = telar::join_processes();
  const int failed = RUN_ALL_TESTS();
  telar::test::look_for_leaks();
  telar::test::joined.reset();
  return failed;
}
