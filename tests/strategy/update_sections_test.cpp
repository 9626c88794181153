// The layout of parameters in memory: for each rule, an update is one pass over contiguous memory.
#include "telar/device/update_sections.h"

#include <gtest/gtest.h>

#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"
#include "telar/strategy/strategy.h"

namespace telar {
namespace {

UpdateSections sections(const Program& program) {
  std::vector<std::pair<std::string, TensorLayout>> lying;
  for (const ParameterInfo& parameter : program.parameters) {
    const auto bytes = static_cast<size_t>(parameter.shape.elements()) * sizeof(float);
    lying.emplace_back(parameter.name, TensorLayout{parameter.shape, bytes, "plain", nullptr});
  }
  return sections_of(program.update, ArenaLayout::pack(lying));
}

TEST(UpdateSections, OfAResNetAreItsWeightsAndItsStatistics) {
  const TrainingStep step =
      make_training_step(make_model("resnet34", {}, {3, 32, 32}, 10),
                         {.batch = 2, .optimizer = SgdOptions{.momentum = 0.9, .weight_decay = 1e-4}});
  Cluster cluster;
  cluster.devices = {{"cpu", 1, {}}, {"cpu", 1, {}}};
  EXPECT_EQ(sections(make_strategy("mirrored", {}).rewrite(step, cluster)).sections.size(), 2U);
  cluster.devices.pop_back();
  EXPECT_EQ(sections(make_strategy("single", {}).rewrite(step, cluster)).sections.size(), 2U);
}

}  // namespace
}  // namespace telar
