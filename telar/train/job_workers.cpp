#include "telar/train/job_workers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "telar/core/error.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"

namespace telar {

int64_t job_workers(const Job& job, const Processes* processes) {
  return job_workers(job, processes == nullptr ? 1 : processes->size());
}

int64_t job_workers(const Job& job, int processes) {
  const Workers workers = workers_of(job.strategy);
  return workers.of_all_processes ? workers.shares : workers.shares * processes;
}

Job job_for(const Job& job, const SampleSpec& spec, int64_t begun_with, int processes) {
  const Workers begun = workers_of(job.strategy);
  if (!begun.of_all_processes || processes == begun_with) return job;
  const std::string& option = type_of(job.strategy).count;
  const auto with = [&](int64_t number) {
    Job changed = job;
    changed.strategy.options.set(option, number);
    return changed;
  };
  const int64_t most = std::max<int64_t>(job.strategy.options.integer(option), processes);
  std::vector<std::pair<int64_t, int64_t>> found;  // how far from as many in a process; the number
  for (int64_t count = 1; count <= most; ++count) {
    const int64_t workers = workers_of(with(count).strategy).count;
    if (workers % processes == 0)
      found.emplace_back(std::abs(workers / processes - begun.count / begun_with), count);
  }
  std::ranges::sort(found);
  std::string why;
  for (const auto& [distance, count] : found) {
    try {
      Job changed = with(count);
      job_program(changed, spec, processes);
      return changed;
    } catch (const Error& error) {
      if (why.empty()) why = error.what();
    }
  }
  throw user_error(
      "no strategy.{} from 1 to {} suits {} process{}{}{}; the last checkpoint is whole; continue from it with --resume",
      option, most, processes, processes == 1 ? "" : "es", why.empty() ? "" : ": ", why);
}

int64_t samples_together(const Job& job, int64_t workers) {
  return job.data.mixing == "by_label" ? std::max<int64_t>(1, job.training.batch / workers) : 1;
}

std::string settle_workers(Job& job, int64_t workers) {
  constexpr int64_t kMost = int64_t{1} << 24;  // the limit of training.batch
  const std::string scale = std::exchange(job.schedule.scale, "none");
  if (std::exchange(job.training.batch_per, "step") == "step") return "";
  if (job.training.batch > kMost / workers) {
    throw user_error("{} workers with {} samples each exceed the limit of {} samples in a step", workers,
                     job.training.batch, kMost);
  }
  std::string text = fmt::format("{} workers × {} samples: a batch of {}", workers, job.training.batch,
                                 workers * job.training.batch);
  job.training.batch *= workers;
  if (scale == "none") return text;
  const auto k = static_cast<double>(workers);
  double& rate = job.optimizer.learning_rate;
  const double scaled = rate * (scale == "linear" ? k : std::sqrt(k));
  text += fmt::format("; learning rate {:g} × {} = {:g}", rate,
                      scale == "linear" ? fmt::format("{}", workers) : fmt::format("√{}", workers), scaled);
  if (job.schedule.warmup_epochs > 0) {
    text += fmt::format(", from {:g} in {:g} epochs", job.schedule.warmup_rate, job.schedule.warmup_epochs);
  }
  rate = scaled;
  return text;
}

}  // namespace telar
