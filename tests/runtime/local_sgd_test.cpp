#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "runtime/models.h"
#include "support/make_session.h"
#include "telar/graph/piece.h"

namespace telar {
namespace {

using test::all_state;
using test::convnet;
using test::make_session;
using test::relative_l2;
using test::Samples;

constexpr int64_t kBatch = 12;

/// A model with running statistics, for images of 8 × 8 pixels.
Model with_batch_norm() {
  return make_model("resnet18", {{"stem", std::string("3x3")}, {"width", int64_t{4}}}, {3, 8, 8}, 10);
}

std::unique_ptr<Session> local_sgd(const Model& model, const StepOptions& step, int workers, int64_t every,
                                   int64_t warmup = 0) {
  return make_session(
      model, step,
      {.replicas = workers,
       .name = "local_sgd",
       .strategy = {{"average_every", every}, {"warmup_steps", warmup}, {"bucket_mb", 1.0 / 64}}});
}

std::vector<float> parameters_of(const Session& session) {
  std::vector<float> all;
  for (const StateName& name : session.state_names()) {
    if (!name.is_parameter()) continue;
    const auto values = session.read_state(name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Sessions of one device, one for each worker, whose parameters are averaged by hand.
class ByHand {
 public:
  ByHand(const Model& model, const StepOptions& step, int workers) {
    for (int w = 0; w < workers; ++w) workers_.push_back(make_session(model, step, {}));
  }

  void train(const Samples& samples, int64_t count, const StepInputs& inputs) {
    const std::vector<int64_t> bounds = equal_parts(count, std::ssize(workers_));
    for (size_t w = 0; w < workers_.size(); ++w)
      workers_[w]->train(samples.view(bounds[w], bounds[w + 1]), inputs);
  }
  std::vector<float> mean(const StateName& name) const {
    std::vector<float> sum = workers_[0]->read_state(name);
    for (size_t w = 1; w < workers_.size(); ++w) {
      const auto values = workers_[w]->read_state(name);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    for (float& value : sum) value /= static_cast<float>(workers_.size());
    return sum;
  }
  void average() {
    for (const StateName& name : workers_[0]->state_names()) {
      if (!name.is_parameter()) continue;
      const std::vector<float> values = mean(name);
      for (const auto& worker : workers_) worker->write_state(name, values);
    }
  }
  std::vector<float> all_means() const {
    std::vector<float> all;
    for (const StateName& name : workers_[0]->state_names()) {
      const auto values = mean(name);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<Session>> workers_;
};

struct LocalSgdCase {
  std::string text;
  Model model;
  Shape sample;
  StepOptions step;
  int workers;
};

std::vector<LocalSgdCase> local_sgd_cases() {
  return {
      {"momentum", convnet(), {1, 28, 28}, {.batch = kBatch, .optimizer = SgdOptions{.momentum = 0.9}}, 2},
      {"Adam that clips",
       convnet(),
       {1, 28, 28},
       {.batch = kBatch, .optimizer = AdamOptions{}, .clip_norm = 0.1},
       3},
      {"batch norm",
       with_batch_norm(),
       {3, 8, 8},
       {.batch = kBatch, .optimizer = SgdOptions{.momentum = 0.9}},
       2}};
}

TEST(LocalSgd, EqualsSessionsThatAreAveragedByHand) {
  for (const LocalSgdCase& tested : local_sgd_cases()) {
    const auto session = local_sgd(tested.model, tested.step, tested.workers, 3);
    ByHand hand(tested.model, tested.step, tested.workers);
    for (int64_t s = 1; s <= 7; ++s) {
      const Samples samples(kBatch, tested.sample, 10, static_cast<uint64_t>(s));
      const int64_t count = s == 5 ? kBatch - 1 : kBatch;  // a last batch whose parts differ
      const StepInputs inputs{.learning_rate = 0.01F, .step = s};
      session->train(samples.view(0, count), inputs);
      hand.train(samples, count, inputs);
      if (s % 3 == 0) hand.average();
      EXPECT_LT(relative_l2(all_state(*session), hand.all_means()), 1e-6) << tested.text << ", step " << s;
    }
  }
}

TEST(LocalSgd, WarmsUpAsMirrored) {
  const StepOptions step{.batch = kBatch, .optimizer = SgdOptions{.momentum = 0.9}, .clip_norm = 0.5};
  const auto session = local_sgd(convnet(), step, 2, 2, 3);
  const auto mirrored =
      make_session(convnet(), step, {.replicas = 2, .mirrored = true, .strategy = {{"bucket_mb", 1.0 / 64}}});
  for (int64_t s = 1; s <= 4; ++s) {
    const Samples samples(kBatch, {1, 28, 28}, 10, static_cast<uint64_t>(s));
    const StepInputs inputs{.learning_rate = 0.01F, .step = s};
    const auto expected = mirrored->train(samples.view(), inputs).metrics;
    EXPECT_NEAR(session->train(samples.view(), inputs).metrics[0], expected[0], 1e-5 * expected[0]);
    const double difference = relative_l2(parameters_of(*session), parameters_of(*mirrored));
    EXPECT_EQ(difference < 1e-6, s <= 3)
        << "step " << s << ": " << difference << "; then each clips its own gradient";
  }
}

TEST(LocalSgd, EvaluatesTheMeanAndTrainsOnAsIfItHadNot) {
  const StepOptions step{.batch = kBatch, .optimizer = SgdOptions{.momentum = 0.9}};
  const auto asked = local_sgd(convnet(), step, 2, 5);
  const auto quiet = local_sgd(convnet(), step, 2, 5);
  const auto one = make_session(convnet(), step, {});
  for (int64_t s = 1; s <= 7; ++s) {
    const Samples samples(kBatch, {1, 28, 28}, 10, static_cast<uint64_t>(s));
    const StepInputs inputs{.learning_rate = 0.05F, .step = s};
    asked->train(samples.view(), inputs);
    quiet->train(samples.view(), inputs);
    if (s % 2 == 1) continue;
    for (const StateName& name : asked->state_names())
      if (name.is_parameter()) one->write_state(name, asked->read_state(name));
    EXPECT_NEAR(asked->evaluate(samples.view())[0], one->evaluate(samples.view())[0], 1e-4);
    EXPECT_LT(relative_l2(asked->predict(samples.view()), one->predict(samples.view())), 1e-5);
  }
  EXPECT_EQ(all_state(*asked), all_state(*quiet));
}

TEST(LocalSgd, GoesOnFromTheStatesOfItsWorkers) {
  const StepOptions step{.batch = kBatch, .optimizer = AdamOptions{}};
  const auto straight = local_sgd(convnet(), step, 2, 4);
  auto resumed = local_sgd(convnet(), step, 2, 4);
  for (int64_t s = 1; s <= 9; ++s) {
    const Samples samples(kBatch, {1, 28, 28}, 10, static_cast<uint64_t>(s));
    const StepInputs inputs{.learning_rate = 0.01F, .step = s};
    straight->train(samples.view(), inputs);
    resumed->train(samples.view(), inputs);
    auto next = local_sgd(convnet(), step, 2, 4);
    test::copy_state(*resumed, *next);
    const std::vector<StateName> own = resumed->states_of_workers();
    EXPECT_EQ(own.size(), 2 * (s % 4 == 0 ? 2U : 3U) * parameters_of(convnet()).size());
    for (const StateName& name : own) next->write_state(name, resumed->read_state(name));
    resumed = std::move(next);
    EXPECT_EQ(all_state(*resumed), all_state(*straight)) << "after step " << s;
  }
}

TEST(LocalSgd, AWorkerWhoseLossIsNotFiniteUpdatesNothing) {
  const auto session = local_sgd(convnet(), {.batch = 4, .optimizer = SgdOptions{}}, 2, 100);
  const Samples samples(4, {1, 28, 28}, 10);
  const StepInputs inputs{.learning_rate = 0.1F, .step = 1};
  std::vector<float> x(4 * 784, 0.5F);
  x.back() = std::numeric_limits<float>::quiet_NaN();
  BatchView batch = samples.view();
  batch.inputs[0].data = x.data();
  const auto before = parameters_of(*session);
  EXPECT_FALSE(session->train(batch, inputs).finite);
  session->evaluate(samples.view());
  std::vector<float> of_first;
  std::vector<float> of_second;
  for (StateName name : session->state_names()) {
    if (!name.is_parameter()) continue;
    for (const int64_t worker : {0, 1}) {
      name.worker = worker;
      const auto values = session->read_state(name);
      auto& all = worker == 0 ? of_first : of_second;
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  EXPECT_NE(of_first, before);
  EXPECT_EQ(of_second, before);
  EXPECT_NE(session->find_non_finite(batch, inputs), "");
}

}  // namespace
}  // namespace telar
