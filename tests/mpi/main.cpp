#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "mpi/started.h"
#include "telar/comm/linked/linked_processes.h"
#include "telar/comm/peers/peer_links.h"

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

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value == nullptr ? "" : value;
}

/// The other processes, which run the same tests.
std::vector<pid_t> start_others(int count, const std::string& address, char** words) {
  setenv("TELAR_TEST_JOIN", address.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  std::vector<pid_t> others(static_cast<size_t>(count));
  for (pid_t& other : others) posix_spawn(&other, "/proc/self/exe", nullptr, nullptr, words, environ);
  return others;
}

}  // namespace

bool started_together() { return joined != nullptr; }
Processes& processes() { return *joined; }

}  // namespace telar::test

/// Started by mpirun, or with TELAR_TEST_PEERS=N in the environment: then it starts N - 1 others, which join
/// it without MPI.
int main(int argc, char** argv) {
  using namespace telar;
  using namespace telar::test;
  const std::vector<char*> words(argv, argv + argc + 1);
  testing::InitGoogleTest(&argc, argv);
  const std::string peers = variable("TELAR_TEST_PEERS");
  std::vector<pid_t> others;
  if (const std::string address = variable("TELAR_TEST_JOIN"); !address.empty()) {
    JoinedPeers others_too = join_peers(address, 0, 20, {}).value();
    joined = std::make_unique<LinkedProcesses>(std::move(others_too.links));
  } else if (!peers.empty()) {
    PeerMeeting meeting("127.0.0.1:0", std::stoi(peers), "", {});
    others = start_others(std::stoi(peers) - 1, meeting.address(), const_cast<char**>(words.data()));
    joined = std::make_unique<LinkedProcesses>(meeting.wait());
  } else {
    joined = join_processes();
  }
  int failed = RUN_ALL_TESTS();
  if (peers.empty()) look_for_leaks();
  joined.reset();
  for (const pid_t other : others) {
    int status = 0;
    waitpid(other, &status, 0);
    if (status != 0) failed = 1;
  }
  return failed;
}
