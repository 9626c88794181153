#include "telar/device/cpu/updater.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/device/cpu/optimizer_loops.h"
#include "telar/device/cpu/parallel.h"

namespace telar {

std::vector<std::string> state_slots(const Graph& update) {
  std::set<std::string> slots;
  for (const Value& value : update.values()) {
    if (value.kind != ValueKind::buffer) continue;
    const std::string slot = value.name.substr(0, value.name.find('/'));
    if (slot != "gradient") slots.insert(slot);
  }
  return {slots.begin(), slots.end()};
}

}  // namespace telar

namespace telar::cpu {

namespace {

constexpr int64_t kGrain = 8192;  // floats a thread

float real(const Attributes& attributes, const char* name) {
  return static_cast<float>(attributes.real(name));
}

bool is_update(const Node& node) { return node.op->name().ends_with("_update"); }

}  // namespace

CpuUpdater::CpuUpdater(const Graph& update, const ArenaLayout& arena) {
  const std::vector<std::string> slots = state_slots(update);
  for (const Node& node : update.nodes()) {
    if (node.op->name() == "clip_factor") max_norm_ = node.attributes.real("max_norm");
    if (!is_update(node)) continue;
    const ArenaLayout::Slot& place = arena.find(update.value(node.inputs[0]).name);
    Section section{place.offset,
                    place.offset + align_up(place.layout.bytes),
                    std::string(node.op->name()),
                    node.attributes,
                    {},
                    node.inputs.back() != kNoValue};
    for (size_t i = 2; i + 4 < node.inputs.size(); ++i) {  // the last four are scalars
      const std::string& name = update.value(node.inputs[i]).name;
      const auto slot = std::find(slots.begin(), slots.end(), name.substr(0, name.find('/')));
      section.states.push_back(static_cast<size_t>(slot - slots.begin()));
    }
    sections_.push_back(std::move(section));
  }
  std::sort(sections_.begin(), sections_.end(),
            [](const Section& a, const Section& b) { return a.begin < b.begin; });
  std::vector<Section> merged;
  for (Section& section : sections_) {
    if (!merged.empty() && merged.back().end == section.begin && merged.back().rule == section.rule &&
        merged.back().attributes == section.attributes && merged.back().clipped == section.clipped) {
      merged.back().end = section.end;
    } else {
      merged.push_back(std::move(section));
    }
  }
  sections_ = std::move(merged);
}

double CpuUpdater::sum_of_squares(const UpdateBindings& bindings, size_t begin, size_t end) const {
  double sum = 0;
  for (const Section& section : sections_) {
    const size_t from = std::max(begin, section.begin);
    const size_t to = std::min(end, section.end);
    if (!section.clipped || from >= to) continue;
    sum += cpu::sum_of_squares(reinterpret_cast<const float*>(bindings.gradients + from),
                               static_cast<int64_t>((to - from) / sizeof(float)));
  }
  return sum;
}

void CpuUpdater::apply(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
                       size_t begin, size_t end) const {
  float clip = 1.0F;
  if (max_norm_ > 0) {
    const double norm = std::sqrt(sum_of_squares) / scalars.samples;
    clip = static_cast<float>(std::min(1.0, max_norm_ / (norm + 1e-6)));
  }
  for (const Section& section : sections_) {
    const size_t from = std::max(begin, section.begin);
    const size_t to = std::min(end, section.end);
    if (from < to)
      run(section, bindings, scalars, (section.clipped ? clip : 1.0F) / scalars.samples, from, to);
  }
}

void CpuUpdater::run(const Section& section, const UpdateBindings& bindings, const UpdateScalars& scalars,
                     float scale, size_t begin, size_t end) const {
  auto* p = reinterpret_cast<float*>(bindings.parameters + begin);
  const auto* g = reinterpret_cast<const float*>(bindings.gradients + begin);
  std::vector<float*> s;
  for (const size_t index : section.states)
    s.push_back(reinterpret_cast<float*>(bindings.states[index] + begin));
  const Attributes& a = section.attributes;
  const auto count = static_cast<int64_t>((end - begin) / sizeof(float));
  const auto pass = [&](const auto& body) { parallel_for(count, kGrain, body); };

  if (section.rule == "sgd_update") {
    const SgdLoop loop{scalars.learning_rate, scale,
                       real(a, "momentum"),   real(a, "weight_decay"),
                       a.flag("nesterov"),    scalars.step <= 1.0F};
    pass([&](int64_t from, int64_t to) {
      if (s.empty()) {
        sgd_plain(loop, p + from, g + from, to - from);
      } else {
        sgd_momentum(loop, p + from, g + from, s[0] + from, to - from);
      }
    });
  } else if (section.rule == "adam_update") {
    const double t = scalars.step;
    const AdamLoop loop{scalars.learning_rate,
                        scale,
                        real(a, "beta1"),
                        real(a, "beta2"),
                        real(a, "epsilon"),
                        real(a, "weight_decay"),
                        static_cast<float>(1.0 - std::pow(a.real("beta1"), t)),
                        static_cast<float>(std::sqrt(1.0 - std::pow(a.real("beta2"), t))),
                        a.flag("decoupled")};
    pass([&](int64_t from, int64_t to) {
      adam(loop, p + from, g + from, s[0] + from, s[1] + from, to - from);
    });
  } else if (section.rule == "rmsprop_update") {
    const RmspropLoop loop{scalars.learning_rate, scale,
                           real(a, "alpha"),      real(a, "epsilon"),
                           real(a, "momentum"),   real(a, "weight_decay")};
    pass([&](int64_t from, int64_t to) {
      if (s.size() == 1) {
        rmsprop_plain(loop, p + from, g + from, s[0] + from, to - from);
      } else {
        rmsprop_momentum(loop, p + from, g + from, s[0] + from, s[1] + from, to - from);
      }
    });
  } else if (section.rule == "running_average_update") {
    running_average(real(a, "momentum"), scale, p, g, count);
  } else {
    throw run_error("the CPU device has no rule for '{}'", section.rule);
  }
}

}  // namespace telar::cpu
