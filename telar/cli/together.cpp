#include "telar/cli/together.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "telar/cli/errors.h"
#include "telar/comm/linked/linked_processes.h"
#include "telar/comm/peers/peer_links.h"
#include "telar/comm/store/random_id.h"
#include "telar/core/error.h"
#include "telar/core/memory_limit.h"
#include "telar/observe/process.h"
#include "telar/train/local_processes.h"
#include "telar/train/shared_task.h"

namespace telar::cli {

namespace {

constexpr double kWorkersEnd = 5;         // seconds
constexpr double kWaitsWithoutNeed = 60;  // for others that may have to hear that the run has ended

/// A process of this host that joins; its errors appear where those of this process do.
ChildStart worker_process(int64_t rank, const std::string& coordinator, const Security& security,
                          bool replaceable) {
  ChildStart child{.name = fmt::format("the process {}", rank),
                   .words = {std::filesystem::read_symlink("/proc/self/exe").string(), "work", "--join",
                             coordinator, "--follow", std::to_string(::getpid())},
                   .environment = {},
                   .log = {},
                   .may_leave = [](int code) {
                     return code == 0 || code == kStoppedUnstored || code > 128;
                   }};  // the run ends, or is stopped
  if (!replaceable) child.irreplaceable = [] { return "so the run cannot go on"; };
  if (!security.token.empty()) child.environment["TELAR_TOKEN"] = security.token;
  return child;
}

}  // namespace

std::unique_ptr<Processes> join_together() {
  return join_processes([](const Error& error) { std::_Exit(report(error)); });
}

std::unique_ptr<Processes> processes_over(std::unique_ptr<ElasticLinks> links, int64_t min_workers,
                                          ElasticProcesses*& elastic) {
  if (min_workers == 0) return std::make_unique<LinkedProcesses>(std::move(links));
  auto processes = std::make_unique<ElasticProcesses>(std::move(links), static_cast<int>(min_workers));
  elastic = processes.get();
  return processes;
}

std::string reachable(const std::string& address) {
  Address known = Address::parse(address);
  if (known.host == "0.0.0.0" || known.host == "::") known.host = host_name();
  return known.text();
}

class PeerGroup::Impl {
 public:
  explicit Impl(const PeerStart& start) : children_({}) {
    Security security = start.security;
    const bool here = start.coordinate.empty();
    if (here && security.token.empty())
      security.token = fmt::format("{:016x}{:016x}", random_id(), random_id());
    PeerMeeting meeting(
        here ? "127.0.0.1:0" : start.coordinate, static_cast<int>(start.workers), start.description,
        {.purpose = kTrainPurpose, .security = security, .stop = {}, .say = here ? nullptr : start.say});
    if (!here) start.listens(meeting.address());
    for (int64_t rank = 1; here && rank < start.workers; ++rank)
      children_.start(worker_process(rank, meeting.address(), security, start.min_workers > 0));
    const auto begin = std::chrono::steady_clock::now();
    bool asked = false;
    auto links = meeting.wait([&] {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      const bool asks = start.wait > 0 && !asked && waited.count() > std::min(start.wait, kWaitsWithoutNeed);
      asked |= asks;
      const bool alone = asks && start.needs_nobody();
      if (alone) meeting.needs_nobody();
      if (alone || (start.wait > 0 && waited.count() > start.wait))
        throw run_error(
            "not all of the {} other processes have come within {:g} s (--wait): see why they do not start, or whether they have ended; then start the run again",
            start.workers - 1, start.wait);
      children_.check();
      if (start.stop_requested && start.stop_requested())
        throw run_error("the run was stopped before all processes had come");
    });
    processes_ = processes_over(std::move(links), start.min_workers, elastic_);
  }
  ~Impl() {
    children_.let_end();
    processes_.reset();
    children_.wait_for_end(kWorkersEnd);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Processes& processes() { return *processes_; }
  ElasticProcesses* elastic() { return elastic_; }

 private:
  LocalProcesses children_;
  ElasticProcesses* elastic_ = nullptr;
  std::unique_ptr<Processes> processes_;
};

PeerGroup::PeerGroup(const PeerStart& start) : impl_(std::make_unique<Impl>(start)) {}
PeerGroup::~PeerGroup() = default;
Processes& PeerGroup::processes() { return impl_->processes(); }
ElasticProcesses* PeerGroup::elastic() { return impl_->elastic(); }

int run_together(Processes* processes, const std::function<int()>& work, OthersFailures failures) {
  if (processes == nullptr) return work();
  const auto end = [=](const std::exception& error) {
    const int rank = processes->rank();
    const bool of_another = rank > 0 && failures == OthersFailures::silent && processes->lost();
    const int code =
        of_another  ? exit_code(error)
        : rank == 0 ? report(error)
                    : report(Error(as_error(error).kind(), fmt::format("rank {} on {}: {}", rank, host_name(),
                                                                       as_error(error).what())));
    processes->abort(code, error.what());
    return code;
  };
  processes->when_lost(end);
  try {
    return work();
  } catch (const std::exception& error) {
    if (processes->rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    return end(error);
  }
}

}  // namespace telar::cli
