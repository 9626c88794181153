#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "telar/core/random.h"
#include "telar/nn/training_step.h"
#include "telar/runtime/session.h"
#include "telar/strategy/strategy.h"

namespace telar::test {

/// Pseudorandom samples: features uniform in −1 … 1, labels uniform over the classes.
class Samples {
 public:
  Samples(int64_t count, const Shape& sample, int64_t classes, uint64_t seed = 5) : count_(count) {
    RandomSequence random(seed, 1);
    x_.resize(static_cast<size_t>(count * sample.elements()));
    for (float& value : x_) value = 2 * random.uniform() - 1;
    for (int64_t i = 0; i < count; ++i) {
      labels_.push_back(static_cast<int32_t>(random.below(static_cast<uint32_t>(classes))));
      ids_.push_back(i);
    }
  }
  BatchView view() const { return view(0, count_); }
  BatchView view(int64_t first, int64_t last) const {
    const auto features = static_cast<int64_t>(x_.size()) / count_;
    return {last - first,
            {{"x", x_.data() + first * features}, {"label", labels_.data() + first}},
            ids_.data() + first};
  }

 private:
  int64_t count_;
  std::vector<float> x_;
  std::vector<int32_t> labels_;
  std::vector<int64_t> ids_;
};

/// The device under test: the value of the environment variable TELAR_TEST_DEVICE ("cuda:0"), else "cpu".
inline std::string tested_kind() {
  const char* named = std::getenv("TELAR_TEST_DEVICE");
  return named == nullptr ? "cpu" : named;
}

struct SessionSetup {
  int replicas = 1;
  int threads = 1;
  bool mirrored = false;
  bool pipeline = false;  ///< with `replicas` stages
  std::string name = {};  ///< of another strategy, with `replicas` workers in this process
  /// One for each replica: "cpu", "cuda:0". If empty: tested_kind(), or "cpu" for a pipeline.
  std::vector<std::string> devices = {};
  Attributes strategy = {};  ///< its options
  std::vector<OperationCost> costs = {};
  SessionOptions session = {.seed = 11};
};

inline std::unique_ptr<Session> make_session(const Model& model, const StepOptions& options,
                                             const SessionSetup& setup) {
  const std::string usual = setup.pipeline ? "cpu" : tested_kind();
  Cluster cluster;
  if (setup.session.processes != nullptr) {
    cluster.processes = setup.session.processes->size();
    cluster.process = setup.session.processes->rank();
  }
  for (size_t r = 0; r < static_cast<size_t>(setup.replicas); ++r)
    cluster.devices.push_back({setup.devices.empty() ? usual : setup.devices[r], setup.threads, {}});
  std::string name = setup.pipeline ? "pipeline" : setup.mirrored ? "mirrored" : "single";
  if (!setup.name.empty()) name = setup.name;
  const auto strategy = make_strategy(name, setup.strategy);
  return std::make_unique<Session>(strategy.rewrite(make_training_step(model, options), cluster, setup.costs),
                                   cluster, setup.session);
}

inline std::vector<float> all_gradients(const Session& session) {
  std::vector<float> all;
  for (const StateName& name : session.state_names()) {
    if (!name.is_parameter()) continue;
    const auto gradient = session.read_gradient(name.parameter);
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  return all;
}

/// Of a session whose state is divided among processes, all of them call it.
inline std::vector<float> all_state(const Session& session) {
  std::vector<float> all;
  for (const StateName& name : session.state_names()) {
    const auto values = session.read_state(name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

inline void copy_state(const Session& from, Session& to) {
  for (const StateName& name : from.state_names()) to.write_state(name, from.read_state(name));
}

/// Changes an MLP (layers fc1, fc2 …) so that a sample whose first feature is 1e38 has a finite loss, but an
/// infinite gradient of fc1.weight: fc1 ignores its input, and the last layer has large weights.
inline void let_gradient_overflow(Session& session) {
  std::string last;
  for (const StateName& name : session.state_names())
    if (name.is_parameter() && name.parameter.ends_with(".weight")) last = std::max(last, name.parameter);
  const auto fill = [&](const std::string& name, const auto& value) {
    std::vector<float> values(static_cast<size_t>(session.state_shape(name).elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<float>(i));
    session.write_state(name, values);
  };
  fill("fc1.weight", [](float) { return 0.0F; });
  fill("fc1.bias", [](float) { return 1.0F; });
  fill(last, [](float i) { return 1000 * std::cos(1.7F * i); });
}

/// ‖a − b‖ / ‖b‖; ‖a − b‖ if b is 0.
inline double relative_l2(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(b[i]) * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace telar::test
