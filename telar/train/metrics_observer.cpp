#include "telar/train/metrics_observer.h"

#include <chrono>
#include <utility>

namespace telar {

MetricsObserver::MetricsObserver(std::unique_ptr<MetricsServer> server, MetricsSources sources)
    : sources_(std::move(sources)), server_(std::move(server)) {
  server_->serve([this] { return page(); });
}

std::string MetricsObserver::page() {
  const std::scoped_lock lock(mutex_);
  return prometheus_text(values_);
}

void MetricsObserver::step_done(const StepReport& report, const TrainingState& state) {
  if (report.again) return;  // a counter does not go back
  using enum PrometheusMetric::Kind;
  std::vector<PrometheusMetric> now = {
      {"telar_steps_total", "Training steps", counter, static_cast<double>(state.step)},
      {"telar_samples_total", "Samples trained on", counter, static_cast<double>(state.samples)},
      {"telar_training_seconds_total", "Time in training steps, including the wait for samples", counter,
       state.seconds},
      {"telar_last_step_timestamp_seconds", "When the last step was done, in seconds since 1970", gauge,
       std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
      {"telar_learning_rate", "Learning rate of the last step", gauge, report.learning_rate},
      {"telar_workers", "Workers or replicas that make the steps", gauge,
       static_cast<double>(sources_.workers())}};
  const auto add = [&](std::string name, std::string help, PrometheusMetric::Kind kind, double value) {
    now.push_back({std::move(name), std::move(help), kind, value});
  };
  const auto add_figures = [&](const std::string& prefix, const std::string& help, const std::string& where,
                               const std::vector<double>& sums, int64_t samples) {
    sources_.figures.for_each(sources_.figures.of(sums, samples),
                              [&](const Figure& figure, std::span<const double> numbers) {
                                if (figure.shape.rank() == 0)
                                  add(prefix + figure.name, help + figure.name + where, gauge, numbers[0]);
                              });
  };
  if (report.samples > 0)
    add_figures("telar_", "Mean of ", " over the last step", report.sums, report.samples);
  if (state.evaluation && !state.evaluation->means.empty()) {
    add_figures("telar_window_", "Mean of ", " over the window of new samples",
                state.evaluation->means.windowed(), 1);
    add_figures("telar_fading_", "Fading mean of ", " over new samples", state.evaluation->means.fading(), 1);
    add("telar_drifts_total", "Drifts that were detected", counter,
        static_cast<double>(state.evaluation->drift_count));
  }
  if (const StreamPace* pace = sources_.pace) {
    add("telar_samples_per_second", "Samples trained on per second, over about 5 seconds", gauge,
        pace->rate());
    if (const auto lag = pace->lag())
      add("telar_lag_messages", "Messages of the topic that wait for the training", gauge,
          static_cast<double>(*lag));
    if (const auto seconds = pace->lag_seconds())
      add("telar_lag_seconds", "Seconds in which these messages would be used at the present rate", gauge,
          *seconds);
  }
  if (sources_.workers_wanted)
    add("telar_workers_wanted", "Workers that the load needs", gauge,
        static_cast<double>(sources_.workers_wanted()));
  if (sources_.left_out)
    add("telar_left_out_messages_total", "Damaged messages that were left out", counter,
        static_cast<double>(sources_.left_out()));
  if (sources_.staleness)
    add("telar_staleness_updates", "Mean number of others' updates between a worker's pull and its push",
        gauge, sources_.staleness());
  if (sources_.repeated_parts)
    add("telar_repeated_parts_total", "Parts of batches that were given to another worker after a loss",
        counter, static_cast<double>(sources_.repeated_parts()));
  const std::scoped_lock lock(mutex_);
  values_ = std::move(now);
}

}  // namespace telar
