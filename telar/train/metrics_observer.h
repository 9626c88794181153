#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "telar/nn/metrics.h"
#include "telar/observe/metrics_server.h"
#include "telar/observe/prometheus_text.h"
#include "telar/train/stream_pace.h"
#include "telar/train/training_observer.h"

namespace telar {

/// What the metrics of a run come from besides its steps. Functions are called by the training thread.
struct MetricsSources {
  Figures figures;                               ///< of a step
  const StreamPace* pace = nullptr;              ///< of a stream; otherwise null
  std::function<int64_t()> workers;              ///< that make the steps now
  std::function<int64_t()> workers_wanted = {};  ///< if their number follows the load
  std::function<double()> staleness = {};        ///< with parameter servers
  std::function<int64_t()> left_out = {};        ///< messages, of a stream
  std::function<int64_t()> repeated_parts = {};  ///< of batches, with parameter servers
};

/// Serves the state of a training to Prometheus (docs/stream.md lists the metrics). Comes after the observers
/// that its sources read.
class MetricsObserver final : public TrainingObserver {
 public:
  /// `server`: it does not serve yet.
  MetricsObserver(std::unique_ptr<MetricsServer> server, MetricsSources sources);

  void step_done(const StepReport& report, const TrainingState& state) override;

  std::string address() const { return server_->address(); }
  /// What is served now; from any thread.
  std::string page();

 private:
  MetricsSources sources_;
  std::mutex mutex_;  ///< guards values_
  std::vector<PrometheusMetric> values_;
  std::unique_ptr<MetricsServer> server_;  ///< the last member, because its thread uses the others
};

}  // namespace telar
