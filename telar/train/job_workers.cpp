#include "telar/train/job_workers.h"

#include <algorithm>
#include <cmath>
#include <utility>

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
