// Trains a network with parameter servers, all in this process: two workers and two servers are threads.
// Synchronous training must give what one device gives; asynchronous training must learn.
#include <cmath>
#include <iostream>

#include "telar/data/synthetic.h"
#include "telar/nn/layers.h"
#include "telar/nn/training_step.h"
#include "telar/runtime/session.h"
#include "telar/strategy/server_side.h"
#include "telar/strategy/strategy.h"
#include "telar/train/thread_cluster.h"

namespace {

using namespace telar;

Model network() {
  return {"tiny", {1, 12, 12}, DType::f32, [](ModelBuilder& m, ValueId x) {
            x = max_pool(m, "pool1", relu(m, conv2d(m, "conv1", x, {.channels = 8, .kernel = 3})), 2, 2);
            return linear(m, "fc", flatten(m, x), 4);
          }};
}

TrainerOptions options() {
  TrainerOptions options;
  options.epochs = 3;
  options.schedule.base = 0.02;
  return options;
}

/// The loss on the test samples after training with this strategy.
double train_with(const std::string& strategy, const Dataset& train, const Dataset& test) {
  StepOptions step;
  step.optimizer = SgdOptions{.momentum = 0.9};
  // The device of one worker. A program for servers has a part for each of them.
  const Cluster cluster{.devices = {DeviceSpec{}}, .servers = 2};
  const Program program = make_strategy(strategy).rewrite(make_training_step(network(), step), cluster);
  if (program.stores.empty()) {
    Session session(program, cluster, {.seed = 1});
    Trainer trainer(session, options());
    trainer.fit(train, nullptr);
    return trainer.evaluate(test)[0];
  }
  // This session evaluates. It takes the parameters from the servers after each epoch.
  Session session(coordinator_program(program), cluster, {.seed = 1});
  ThreadCluster workers(program, cluster, train, options(), {.workers = 2, .seed = 1});
  workers.start(session);
  Trainer trainer(session, options());
  trainer.make_steps_with(workers);
  trainer.fit(train, nullptr);
  return trainer.evaluate(test)[0];
}

}  // namespace

int main() try {
  const auto train = synthetic({.samples = 2000, .features = {1, 12, 12}, .classes = 4, .seed = 7});
  const auto test =
      synthetic({.samples = 500, .features = {1, 12, 12}, .classes = 4, .seed = 7, .first = 2000});
  const double single = train_with("single", *train, *test);
  const double synchronous = train_with("sync_ps", *train, *test);
  const double asynchronous = train_with("downpour", *train, *test);
  std::cout << "test loss of one device " << single << ", of synchronous workers " << synchronous
            << ", of asynchronous workers " << asynchronous << "\n";
  const bool equal = std::abs(synchronous - single) <= 1e-4 * single;
  return equal && asynchronous < 0.5 * std::log(4.0) ? 0 : 1;  // log 4: the loss of a guess
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << "\n";
  return 1;
}
