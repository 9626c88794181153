#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "telar/cli/options.h"
#include "telar/cli/run_ending.h"
#include "telar/cli/service.h"
#include "telar/cli/together.h"
#include "telar/cli/verbs.h"
#include "telar/comm/peers/peer_links.h"
#include "telar/core/error.h"
#include "telar/launch/supervisor.h"
#include "telar/observe/service_log.h"
#include "telar/train/shared_task.h"
#include "telar/train/worker.h"

namespace telar::cli {

namespace {

constexpr StopRequest::Messages kWorkStops = {
    "leaving the run: unfinished work goes to other workers, and processes in lockstep stop with a checkpoint; a second Ctrl-C quits at once\n",
    "quitting at once\n"};

struct WorkArguments {
  std::string join;
  std::vector<std::string> overrides;
  double wait = 60;
  int64_t follow = 0;
  bool supervised = false;
  SecurityArguments security;
};

/// How this process goes on with a run as telar train does.
Heir heir_of(const SharedTask& task, Progress& progress, bool supervised, ServiceLog& log) {
  return {.leads =
              [&log, supervised](const std::string& address) {
                if (supervised)
                  std::cout << kAddressLine << address << std::endl;
                else
                  log.line(fmt::format(
                      "rank 0 is lost, and this process leads the run from here on: telar work --join {}",
                      reachable(address)));
              },
          .refuses = [](const std::string& why) { std::cerr << "error: " << why << std::endl; },
          .say = [&progress](const std::string& text) { progress.message(text); },
          .warn =
              [&task](const std::string& text) {
                if (!task.quiet) std::cerr << "warning: " << text << std::endl;
              },
          .progress = &progress,
          .metrics = task.metrics};
}

/// Whether the process that has coordinated the run stays to say so (telar train --linger).
bool is_over(const WorkOptions& options) {
  try {
    const auto joined =
        join_peers(options.coordinator, 0, 0,
                   {.purpose = kTrainPurpose, .security = options.security, .stop = {}, .say = {}});
    return joined && joined->links == nullptr;
  } catch (const Error&) {
    return false;
  }
}

int work(const WorkArguments& arguments) {
  ServiceEnd end(arguments.follow, arguments.supervised ? StopRequest::Messages{} : kWorkStops);
  std::optional<EndsWithInput> ends_with_input;
  if (arguments.supervised) ends_with_input.emplace();
  ServiceLog log(STDOUT_FILENO);
  WorkOptions options;
  options.coordinator = arguments.join;
  options.security = security_of(arguments.security);
  options.overrides = arguments.overrides;
  options.patience_seconds = arguments.wait;
  options.stop = end.token();
  options.stays = arguments.supervised;
  options.say = [&log](const std::string& text) { log.line(text); };
  std::optional<JoinedPeers> joined;
  try {
    joined = join_peers(
        options.coordinator, 0, options.patience_seconds,
        {.purpose = kTrainPurpose, .security = options.security, .stop = options.stop, .say = options.say});
  } catch (const Error&) {
    if ((arguments.follow == 0 && !arguments.supervised) || !end.token().stop_requested()) throw;
    return log.finish(1);  // the process that started it has ended, and said why, or the run is over
  }
  if (joined) {
    if (joined->links == nullptr) {
      if (arguments.follow == 0) log.line("the run is over, and needs no other process");
      return log.finish(0);
    }
    const SharedTask task = shared_task_from_json(joined->description);
    ElasticProcesses* elastic = nullptr;
    const std::unique_ptr<Processes> processes =
        processes_over(std::move(joined->links), task.job.strategy.min_workers, elastic);
    // A process that is stopped would outlive a run that has failed.
    if (arguments.follow != 0)
      prctl(PR_SET_PDEATHSIG, SIGKILL);
    else if (elastic != nullptr && elastic->waits())
      log.line(fmt::format("joined {} in place of a process that was lost", options.coordinator));
    else
      log.line(fmt::format("joined {} as rank {} of {}", options.coordinator, processes->rank(),
                           processes->size()));
    std::optional<Progress> progress;
    std::optional<Heir> heir;
    // Those that telar train has started end with it.
    if (elastic != nullptr && arguments.follow == 0)
      heir = heir_of(task, progress.emplace(std::cout, progress_of(task.job, task.quiet)),
                     arguments.supervised, log);
    return log.finish(run_together(
        processes.get(),
        [&] {
          return follow(
              task, options.overrides, *processes, elastic,
              [&end] {
                return end.token().stop_requested() && end.signal_number() == 0 ? SIGTERM
                                                                                : end.signal_number();
              },
              heir,
              [&](const RunSummary& summary) {
                say_ended(summary, task.summary, task.quiet);
                end_with_newcomers(summary, elastic);
              });
        },
        arguments.follow != 0 || arguments.supervised ? OthersFailures::silent : OthersFailures::reported));
  }
  try {
    telar::work(options);
  } catch (const Error&) {
    if (!end.token().stop_requested() && !is_over(options)) throw;
    log.line(end.token().stop_requested() ? "left the run" : "the run is over");
  }
  return log.finish(end.signal_number() == 0 ? 0 : 128 + end.signal_number());
}

}  // namespace

void add_work(Verb& program) {
  auto arguments = std::make_shared<WorkArguments>();
  Verb verb = program.subverb("work", "Joins a run as a worker; possible at any time");
  verb.option("--join", arguments->join,
              "HOST:PORT of the coordinator (started by telar train JOB --coordinate HOST:PORT)")
      .required();
  add_overrides(verb, arguments->overrides);
  verb.option("--wait", arguments->wait, "Seconds to wait for a coordinator or server that cannot be reached")
      .show_default()
      .between(0.0, 1e6);
  verb.option("--follow", arguments->follow, "End when this process ends").hidden();
  add_supervised(verb, arguments->supervised);
  add_security(verb, arguments->security);
  verb.footer(
      "Examples:\n"
      "  telar work --join trainer:7000 --certificates certs --token-file token\n"
      "  telar work --join trainer:7000 --set data.path=/data/cifar --set strategy.threads=8\n"
      "  telar work --join trainer:7000 --set device=cuda\n"
      "Ctrl-C leaves the run; unfinished work goes to other workers.\n"
      "Exit codes: 0 the run is over, 1 it failed, 2 invalid command line or file, 130 left by Ctrl-C.");
  verb.action_of_each_process([arguments] { return work(*arguments); });
}

}  // namespace telar::cli
