// Defines a network, trains it on two replicas and evaluates it, with the installed library.
#include <iostream>

#include "telar/data/synthetic.h"
#include "telar/nn/layers.h"
#include "telar/nn/training_step.h"
#include "telar/runtime/session.h"
#include "telar/strategy/strategy.h"
#include "telar/train/trainer.h"

int main() try {
  using namespace telar;

  const Model model{"tiny", {1, 12, 12}, DType::f32, [](ModelBuilder& m, ValueId x) {
                      x = relu(m, conv2d(m, "conv1", x, {.channels = 8, .kernel = 3, .padding = 1}));
                      x = max_pool(m, "pool1", x, 2, 2);
                      x = relu(m, linear(m, "fc1", flatten(m, x), 32));
                      return linear(m, "fc2", dropout(m, "drop", x, 0.1), 4);
                    }};
  StepOptions step;
  step.batch = 32;
  step.optimizer = AdamOptions{};

  // The devices: two replicas with one thread each. The model does not depend on them.
  const Cluster cluster{{DeviceSpec{"cpu", 1, {}}, DeviceSpec{"cpu", 1, {}}}};
  Session session(make_strategy("mirrored", {}).rewrite(make_training_step(model, step), cluster), cluster,
                  {.seed = 1});

  const auto train = synthetic({.samples = 2000, .features = {1, 12, 12}, .classes = 4, .seed = 7});
  const auto test =
      synthetic({.samples = 500, .features = {1, 12, 12}, .classes = 4, .seed = 7, .first = 2000});
  TrainerOptions options;
  options.epochs = 3;
  options.batch = 32;
  options.schedule.base = 0.001;
  Trainer trainer(session, options);
  trainer.fit(*train, nullptr);

  const auto means = trainer.evaluate(*test);  // in the order of session.metric_names(): loss, accuracy
  std::cout << "test loss " << means[0] << ", accuracy " << means[1] << "\n";
  return means[1] > 0.9 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << "\n";
  return 1;
}
