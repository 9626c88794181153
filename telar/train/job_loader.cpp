#include "telar/train/job_loader.h"

#include <fmt/format.h>

#include <algorithm>

#include "telar/observe/process.h"

namespace telar {

ThreadBudget thread_budget(const Job& job, const Processes* processes, const CgroupLimits& limits) {
  ThreadBudget budget{available_threads(processes == nullptr ? 1 : processes->on_this_host(), limits), 0};
  for (const DeviceSpec& device : job_cluster(job, processes).devices) budget.computing += device.threads;
  return budget;
}

int default_loader_threads(const ThreadBudget& budget, int64_t prefetch) {
  return std::clamp(budget.left(), 1, std::max(1, static_cast<int>(prefetch)));
}

int loader_threads(const Job& job, const Processes* processes, const CgroupLimits& limits) {
  if (job.data.threads != kAutomaticThreads) return static_cast<int>(job.data.threads);
  return default_loader_threads(thread_budget(job, processes, limits), job.data.prefetch);
}

std::string loader_warning(const DataJob& data, const ThreadBudget& budget) {
  const int most = std::max(1, budget.left());
  if (data.threads <= most) return "";
  return fmt::format(
      "data.threads is {}, but the quota allows {} thread{}, of which {} compute{}; more than {} loader thread{} may slow the training down",
      data.threads, budget.available, budget.available == 1 ? "" : "s", budget.computing,
      budget.computing == 1 ? "s" : "", most, most == 1 ? "" : "s");
}

void tell_threads(const Job& job, const Processes* processes, const SessionTalk& talk,
                  const CgroupLimits& limits) {
  const std::string quota = quota_text(processes == nullptr ? 1 : processes->on_this_host(), limits);
  if (quota.empty()) return;
  const int loading = loader_threads(job, processes, limits);
  if (talk.say)
    talk.say(fmt::format("{}; the loader has {} thread{}", quota, loading, loading == 1 ? "" : "s"));
  const std::string warning = loader_warning(job.data, thread_budget(job, processes, limits));
  if (!warning.empty() && talk.warn) talk.warn(warning);
}

}  // namespace telar
