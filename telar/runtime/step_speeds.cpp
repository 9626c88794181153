#include "telar/runtime/step_speeds.h"

#include <algorithm>
#include <utility>

namespace telar {

StepSpeeds::StepSpeeds(std::vector<double> shares, bool measured, const std::vector<bool>& on_gpu,
                       const PipelineSize& pipeline, int64_t least)
    : shares_(std::move(shares), least), measured_(measured), mixed_(on_gpu) {
  if (pipeline.micro_batches > 0) bubble_.emplace(pipeline, static_cast<int64_t>(on_gpu.size()));
}

void StepSpeeds::record(std::span<const BatchView> parts, std::span<const WorkerStep> steps,
                        std::chrono::steady_clock::time_point start,
                        std::chrono::steady_clock::time_point end) {
  std::vector<int64_t> samples;
  std::vector<double> seconds;
  auto computed = start;
  double busy = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    samples.push_back(parts[i].size);
    seconds.push_back(steps[i].compute_seconds);
    computed = std::max(computed, steps[i].computed);
    busy += steps[i].compute_seconds;
  }
  if (measured_) shares_.record(samples, seconds);
  if (mixed_.mixed()) mixed_.record(samples, seconds, std::chrono::duration<double>(end - start).count());
  if (bubble_) bubble_->record(computed - start, busy);
}

}  // namespace telar
