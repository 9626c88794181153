#include "telar/device/update_sections.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/graph/ops/update.h"

namespace telar {

std::vector<std::string> state_slots(const Graph& update) {
  std::set<std::string> slots;
  for (const Value& value : update.values()) {
    if (value.kind == ValueKind::optimizer_state) slots.insert(value.slot);
  }
  return {slots.begin(), slots.end()};
}

namespace {

float real(const Attributes& attributes, const char* name) {
  return static_cast<float>(attributes.real(name));
}

UpdateSection section_of(const Graph& update, const Node& node, const ArenaLayout& arena,
                         const std::vector<std::string>& slots) {
  const ArenaLayout::Entry& place = arena.find(update.value(node.inputs[0]).name);
  const size_t end = place.offset + align_up(place.layout.bytes);
  UpdateSection section{place.offset,
                        end,
                        {end},
                        std::string(node.op->name()),
                        node.attributes,
                        {},
                        node.inputs.back() != kNoValue};
  for (size_t i = 2; i + 4 < node.inputs.size(); ++i) {  // the last four inputs are scalars
    const auto slot = std::find(slots.begin(), slots.end(), update.value(node.inputs[i]).slot);
    section.states.push_back(static_cast<size_t>(slot - slots.begin()));
  }
  return section;
}

std::vector<UpdateSection> merged(std::vector<UpdateSection> sections) {
  std::sort(sections.begin(), sections.end(),
            [](const UpdateSection& a, const UpdateSection& b) { return a.begin < b.begin; });
  std::vector<UpdateSection> merged;
  for (UpdateSection& section : sections) {
    if (!merged.empty() && merged.back().end == section.begin && merged.back().rule == section.rule &&
        merged.back().attributes == section.attributes && merged.back().clipped == section.clipped) {
      merged.back().end = section.end;
      merged.back().parameters.push_back(section.end);
    } else {
      merged.push_back(std::move(section));
    }
  }
  return merged;
}

bool is_keras(const Attributes& a) { return a.has("keras") && a.flag("keras"); }

/// In Keras's form the gradient is multiplied by the learning rate before it reaches the momentum.
SgdRule sgd_rule(const Attributes& a, const UpdateScalars& scalars, float scale) {
  const float before = is_keras(a) ? scalars.learning_rate : 1.0F;
  const float after = is_keras(a) ? 1.0F : scalars.learning_rate;
  return {after,
          scale * before,
          real(a, "momentum"),
          real(a, "weight_decay") * before,
          a.flag("nesterov"),
          scalars.step <= 1.0F};
}

RmspropRule rmsprop_rule(const Attributes& a, const UpdateScalars& scalars, float scale) {
  const bool in_momentum = is_keras(a) && a.real("momentum") != 0;
  const float epsilon = real(a, "epsilon");
  return {in_momentum ? 1.0F : scalars.learning_rate,
          in_momentum ? scalars.learning_rate : 1.0F,
          scale,
          real(a, "alpha"),
          is_keras(a) ? 0.0F : epsilon,
          is_keras(a) ? epsilon : 0.0F,
          real(a, "momentum"),
          real(a, "weight_decay")};
}

AdamRule adam_rule(const Attributes& a, const UpdateScalars& scalars, float scale) {
  const double t = scalars.step;
  const double correction2_root = std::sqrt(1.0 - std::pow(a.real("beta2"), t));
  return {scalars.learning_rate,
          scale,
          real(a, "beta1"),
          real(a, "beta2"),
          static_cast<float>(is_keras(a) ? a.real("epsilon") / correction2_root : a.real("epsilon")),
          real(a, "weight_decay"),
          static_cast<float>(1.0 - std::pow(a.real("beta1"), t)),
          static_cast<float>(correction2_root),
          a.flag("decoupled")};
}

}  // namespace

UpdateSections sections_of(const Graph& update, const ArenaLayout& arena) {
  const std::vector<std::string> slots = state_slots(update);
  UpdateSections found;
  for (const Node& node : update.nodes()) {
    if (node.op->name() == "clip_factor") found.max_norm = node.attributes.real("max_norm");
    if (node.op->effect() == Effect::updates)
      found.sections.push_back(section_of(update, node, arena, slots));
  }
  found.sections = merged(std::move(found.sections));
  return found;
}

float clip_factor_of(double max_norm, double sum_of_squares, float samples) {
  if (max_norm <= 0) return 1.0F;
  const double norm = std::sqrt(sum_of_squares) / samples;
  return static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
}

UpdateRule rule_of(const UpdateSection& section, const UpdateScalars& step, float scale) {
  const Attributes& a = section.attributes;
  UpdateScalars scalars = step;
  scalars.learning_rate = static_cast<float>(step.learning_rate * rate_of_update(a));
  if (section.rule == "sgd_update") return sgd_rule(a, scalars, scale);
  if (section.rule == "adam_update") return adam_rule(a, scalars, scale);
  if (section.rule == "rmsprop_update") return rmsprop_rule(a, scalars, scale);
  if (section.rule == "adagrad_update") {
    const double lowered = scalars.learning_rate / (1.0 + (scalars.step - 1.0) * a.real("lr_decay"));
    return AdagradRule{static_cast<float>(lowered), scale, real(a, "epsilon"), real(a, "weight_decay")};
  }
  if (section.rule == "running_average_update") return RunningAverageRule{real(a, "momentum"), scale};
  throw run_error("there is no update rule for '{}'", section.rule);
}

}  // namespace telar
