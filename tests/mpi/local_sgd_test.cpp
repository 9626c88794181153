#include <cmath>

#include "mpi/started.h"
#include "runtime/models.h"
#include "support/make_session.h"
#include "telar/data/assignment.h"

namespace telar::test {
namespace {

using MpiLocalSgd = StartedTogether;

std::unique_ptr<Session> local_sgd(const StepOptions& step, int replicas, Processes* together) {
  return make_session(
      convnet(), step,
      {.replicas = replicas,
       .name = "local_sgd",
       .strategy = {{"average_every", int64_t{3}}, {"warmup_steps", int64_t{2}}, {"bucket_mb", 1.0 / 64}},
       .session = {.seed = 11, .processes = together}});
}

TEST_F(MpiLocalSgd, EqualsThreadsStepByStep) {
  const int64_t size = 12 * processes().size();
  const Part part{processes().rank(), processes().rank() + 1, processes().size()};
  const StepOptions step{.batch = size, .optimizer = SgdOptions{.momentum = 0.9}, .clip_norm = 1};
  for (const int replicas : {1, 2}) {
    const auto threads = local_sgd(step, replicas * processes().size(), nullptr);
    auto all = local_sgd(step, replicas, &processes());
    std::vector<double> expected;
    std::vector<double> losses;
    for (int64_t s = 1; s <= 13; ++s) {
      const Samples samples(size, {1, 28, 28}, 10, static_cast<uint64_t>(s));
      const StepInputs inputs{.learning_rate = 0.01F, .step = s, .samples = size};
      expected.push_back(threads->train(samples.view(), inputs).metrics[0]);
      BatchView mine = samples.view(part.first(size), part.last(size));
      mine.all = size;
      all->begin(mine, inputs);
      // Results come later than steps, but all come.
      while (const auto result = all->finished(s == 13 || s == 7)) {
        EXPECT_TRUE(result->finite);
        losses.push_back(result->metrics[0]);
        if (losses.size() == static_cast<size_t>(s)) break;
      }
      if (s == 7) {  // as from a checkpoint, between two averages
        auto next = local_sgd(step, replicas, &processes());
        copy_state(*all, *next);
        for (const StateName& name : all->states_of_workers()) next->write_state(name, all->read_state(name));
        all = std::move(next);
      }
      if (s % 4 != 0) continue;
      EXPECT_NEAR(all->evaluate(mine)[0], threads->evaluate(samples.view())[0], 1e-3) << "step " << s;
    }
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t s = 0; s < losses.size(); ++s)
      EXPECT_NEAR(losses[s], expected[s], 1e-4 * expected[s]) << "step " << s + 1;
    EXPECT_LT(relative_l2(all_state(*all), all_state(*threads)), 1e-6);
  }
}

TEST_F(MpiLocalSgd, AllProcessesLearnOfALossThatIsNotFinite) {
  const auto all = local_sgd({.batch = 4, .optimizer = SgdOptions{}}, 1, &processes());
  const Samples samples(4, {1, 28, 28}, 10);
  std::vector<float> x(4 * 784, 0.5F);
  if (processes().rank() == 1) x[0] = NAN;
  BatchView batch = samples.view();
  batch.inputs[0].data = x.data();
  batch.all = 4 * processes().size();
  std::vector<bool> finite;
  for (int64_t s = 4; s <= 6; ++s) {
    if (s == 5) batch = samples.view();
    all->begin(batch, {.learning_rate = 0.01F, .step = s, .samples = batch.all});
  }
  for (int i = 0; i < 3; ++i) finite.push_back(all->finished(true)->finite);
  EXPECT_EQ(finite, (std::vector<bool>{false, true, true})) << "on rank " << processes().rank();
}

}  // namespace
}  // namespace telar::test
