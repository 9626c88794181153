// Times the sum of equal arrays over processes: by messages of peers or of MPI, never in shared memory, or by
// MPI's own all-reduce. Every process runs it; rank 0 prints one JSON object. scripts/bench-sums starts them.
//
//   bench_sums --meet 127.0.0.1:7000 --processes 2 & bench_sums --join 127.0.0.1:7000
//   mpirun -n 2 bench_sums --mpi messages

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "telar/bench/timing.h"
#include "telar/comm/linked/linked_processes.h"
#include "telar/comm/peers/peer_links.h"
#include "telar/comm/thread_group.h"
#include "telar/core/error.h"

namespace {

using namespace telar;

constexpr size_t kBucket = (size_t{4} << 20) / sizeof(float);  // the default of strategy.bucket_mb
constexpr int kFirst = 3;                                      // sums that are not counted
const Security kSecurity{.token = "0123456789abcdef0123"};

std::unique_ptr<Processes> processes_by(const std::string& meet, int count, const std::string& join) {
  if (!meet.empty()) {
    PeerMeeting meeting(meet, count, "", {.purpose = "bench_sums", .security = kSecurity});
    return std::make_unique<LinkedProcesses>(meeting.wait());
  }
  if (!join.empty()) {
    std::optional<JoinedPeers> joined =
        join_peers(join, 0, 20, {.purpose = "bench_sums", .security = kSecurity});
    if (!joined) throw user_error("nobody holds a meeting at {}", join);
    return std::make_unique<LinkedProcesses>(std::move(joined->links));
  }
  std::unique_ptr<Processes> processes = join_processes();
  if (processes == nullptr) throw user_error("mpirun has not started this; give --meet or --join instead");
  return processes;
}

/// Ones are summed once and checked; zeros stay what they are.
void check(std::span<float> values, int processes, const std::function<void()>& sum) {
  std::ranges::fill(values, 1.0F);
  sum();
  if (!std::ranges::all_of(values, [&](float value) { return value == static_cast<float>(processes); }))
    throw run_error("the sum of {} ones is wrong", processes);
  std::ranges::fill(values, 0.0F);
}

void run(Processes& processes, size_t bytes, double seconds, bool by_library, bool for_ever) {
  processes.share_memory(false);
  ThreadTeam team(1);
  const std::unique_ptr<Group> group = processes.join(team.member(0));
  const std::span<std::byte> memory = group->allocate(bytes);
  const std::span<float> values{reinterpret_cast<float*>(memory.data()), bytes / sizeof(float)};
  const auto sum = [&] {
    if (by_library) return processes.library_all_reduce(values);
    for (size_t at = 0; at < values.size(); at += kBucket)
      group->start_reduce_scatter(values.subspan(at, std::min(kBucket, values.size() - at)));
    group->finish();
  };
  check(values, processes.size(), sum);
  if (for_ever) {
    if (processes.rank() == 0) std::cout << "{}" << std::endl;
    while (true) sum();  // until it throws
  }
  bench::Times times;
  for (int i = 0;; ++i) {
    const auto start = std::chrono::steady_clock::now();
    sum();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (i >= kFirst) times.milliseconds.push_back(took.count());
    seconds -= took.count() / 1e3;
    // Rank 0 decides, so all take as many.
    bool over = seconds < 0 && times.milliseconds.size() >= 3;
    processes.broadcast(std::as_writable_bytes(std::span(&over, 1)));
    if (over) break;
  }
  if (processes.rank() == 0)
    std::cout << nlohmann::json{{"ms", times.median()}, {"repetitions", times.milliseconds.size()}}
              << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  std::string meet;
  std::string join;
  std::string mpi;
  int count = 2;
  size_t bytes = 1 << 20;
  double seconds = 1;
  bool for_ever = false;
  CLI::App app("Times the sum of equal arrays over processes by messages; rank 0 prints one JSON object");
  app.add_option("--meet", meet, "HOST:PORT; this process becomes rank 0");
  app.add_option("--processes", count, "how many meet, with this one");
  app.add_option("--join", join, "HOST:PORT of rank 0");
  app.add_option("--mpi", mpi, "under mpirun: by Telar's messages over MPI, or by MPI's all-reduce")
      ->check(CLI::IsMember({"messages", "library"}));
  app.add_option("--bytes", bytes, "of each array");
  app.add_option("--seconds", seconds, "that rank 0 sums at least, and at least six times");
  app.add_flag("--for-ever", for_ever, "until a process is lost; rank 0 prints {} when all have begun");
  CLI11_PARSE(app, argc, argv);
  try {
    const std::unique_ptr<Processes> processes = processes_by(meet, count, join);
    run(*processes, bytes, seconds, mpi == "library", for_ever);
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << '\n';
    std::quick_exit(1);  // who is lost is not waited for
  }
}
