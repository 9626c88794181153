#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "telar/observe/metrics_server.h"
#include "telar/observe/prometheus_text.h"
#include "telar/train/stream_pace.h"
#include "telar/train/training_observer.h"

namespace telar {

/// What the metrics of a run come from besides its steps. Functions are called by the training thread.
struct MetricsSources {
  std::vector<std::string> metrics;              ///< names of a step's metrics
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
  /// `address`: HOST:PORT. Throws Error (user) if it cannot listen there.
  MetricsObserver(const std::string& address, MetricsSources sources);

  void step_done(const StepReport& report, const TrainingState& state) override;

  /// HOST:PORT where it listens; the port is the one that was found if 0 was asked for.
  std::string address() const;
  /// What is served now; from any thread.
  std::string page();

 private:
  const std::string asked_;
  MetricsSources sources_;
  std::mutex mutex_;  ///< guards values_
  std::vector<PrometheusMetric> values_;
  MetricsServer server_;  ///< the last member, because its thread uses the others
};

}  // namespace telar
