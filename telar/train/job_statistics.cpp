#include "telar/train/job_statistics.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"

namespace telar {

namespace {

/// The parts into which a batch is divided for statistics of their own, one after another: shares of workers,
/// then micro-batches of a share.
struct Divisions {
  int64_t shares = 1;
  int64_t micro_batches = 1;
  int64_t least = 1;  ///< samples of a part, if it has some and the batch has enough
};

/// Workers with parameter servers lease parts of equal size, so these may have a single sample.
Divisions divisions_of(const Job& job, const Program& program) {
  if (uses_servers(job)) return {.shares = job_parts(job)};
  if (program.least.part == 1) return {};  // the statistics are those of the whole batch
  return {shares_of(program), std::max<int64_t>(1, program.micro_batches), program.least.part};
}

/// The samples of the smallest part that has some, if all shares are equal.
int64_t smallest_part(int64_t batch, const Divisions& divisions) {
  const auto divided = [&](int64_t samples, int64_t parts) {
    return std::clamp<int64_t>(samples / parts, std::min(samples, divisions.least), samples);
  };
  return std::max<int64_t>(1, divided(divided(batch, divisions.shares), divisions.micro_batches));
}

}  // namespace

std::string job_statistics(const Job& job, const Program& program, std::optional<int64_t> samples) {
  if (program.least.layer.empty()) return "";
  const Divisions divisions = divisions_of(job, program);
  const int64_t batch = std::min(job.training.batch, samples.value_or(job.training.batch));
  const int64_t last = samples && *samples % batch > 0 ? *samples % batch : batch;
  const int64_t smallest = smallest_part(batch, divisions);
  const auto refuse = [&](const std::string& which, int64_t size) {
    throw user_error(
        "layer '{}' normalises over the samples of a batch, with one value of each, so it needs at least 2, but {} has {}; choose another training.batch{}",
        program.least.layer, which, size == 1 ? "1" : fmt::format("{}, in parts of which some have 1", size),
        divisions.shares > 1 ? ", or fewer workers" : "");
  };
  if (smallest < program.least.batch) refuse("a batch", batch);
  if (smallest_part(last, divisions) < program.least.batch) refuse("the last batch of an epoch", last);
  return fmt::format(
      "batch norm: layer '{}' takes its statistics of {} samples{}\n", program.least.layer, smallest,
      last == batch ? ""
                    : fmt::format(", or {} in the last batch of an epoch", smallest_part(last, divisions)));
}

}  // namespace telar
