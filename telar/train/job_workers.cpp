#include "telar/train/job_workers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "telar/core/error.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"

namespace telar {

int64_t job_workers(const Job& job, const Processes* processes) {
  const StrategyType& type = type_of(job.strategy);
  // Workers with the same samples, such as the stages of a pipeline, count as one.
  const int64_t in_line = type.in_line.empty() ? 1 : job.strategy.options.integer(type.in_line);
  if (type.of_all_processes) return workers_of(job.strategy) / in_line;
  // Workers of a process that do not share batches count as one. With parameter servers the number is that of
  // the parts of a batch: 1 if each worker's batch is a separate update.
  const int64_t replicas = type.shares_batches ? workers_of(job.strategy) : job_parts(job);
  return replicas * (processes == nullptr ? 1 : processes->size());
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
