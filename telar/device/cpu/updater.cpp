#include "telar/device/cpu/updater.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
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
    const size_t end = place.offset + align_up(place.layout.bytes);
    Section section{place.offset,
                    end,
                    {end},
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
      merged.back().parameters.push_back(section.end);
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
    sum += cpu::sum_of_squares(
        reinterpret_cast<const float*>(bindings.gradients + (from - bindings.gradients_begin)),
        static_cast<int64_t>((to - from) / sizeof(float)));
  }
  return sum;
}

bool CpuUpdater::apply(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
                       size_t begin, size_t end) const {
  float clip = 1.0F;
  if (max_norm_ > 0) {
    const double norm = std::sqrt(sum_of_squares) / scalars.samples;
    clip = static_cast<float>(std::min(1.0, max_norm_ / (norm + 1e-6)));
  }
  bool finite = true;
  for (const Section& section : sections_) {
    const size_t from = std::max(begin, section.begin);
    const size_t to = std::min(end, section.end);
    if (from >= to) continue;
    finite = run(section, bindings, scalars, (section.clipped ? clip : 1.0F) / scalars.samples, from, to) &&
             finite;
  }
  return finite;
}

namespace {

/// A pass of a rule over floats [from, to) of the section.
using Pass = std::function<void(int64_t from, int64_t to)>;

struct Memory {
  float* p;
  const float* g;
  std::vector<float*> s;
};

Pass sgd_pass(const Attributes& a, const UpdateScalars& scalars, float scale, const Memory& m) {
  const SgdLoop loop{scalars.learning_rate, scale,
                     real(a, "momentum"),   real(a, "weight_decay"),
                     a.flag("nesterov"),    scalars.step <= 1.0F};
  return [=](int64_t from, int64_t to) {
    if (m.s.empty()) {
      sgd_plain(loop, m.p + from, m.g + from, to - from);
    } else {
      sgd_momentum(loop, m.p + from, m.g + from, m.s[0] + from, to - from);
    }
  };
}

Pass adam_pass(const Attributes& a, const UpdateScalars& scalars, float scale, const Memory& m) {
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
  return [=](int64_t from, int64_t to) {
    adam(loop, m.p + from, m.g + from, m.s[0] + from, m.s[1] + from, to - from);
  };
}

Pass rmsprop_pass(const Attributes& a, const UpdateScalars& scalars, float scale, const Memory& m) {
  const RmspropLoop loop{scalars.learning_rate, scale,
                         real(a, "alpha"),      real(a, "epsilon"),
                         real(a, "momentum"),   real(a, "weight_decay")};
  return [=](int64_t from, int64_t to) {
    if (m.s.size() == 1) {
      rmsprop_plain(loop, m.p + from, m.g + from, m.s[0] + from, to - from);
    } else {
      rmsprop_momentum(loop, m.p + from, m.g + from, m.s[0] + from, m.s[1] + from, to - from);
    }
  };
}

Pass adagrad_pass(const Attributes& a, const UpdateScalars& scalars, float scale, const Memory& m) {
  const double lowered = scalars.learning_rate / (1.0 + (scalars.step - 1.0) * a.real("lr_decay"));
  const AdagradLoop loop{static_cast<float>(lowered), scale, real(a, "epsilon"), real(a, "weight_decay")};
  return [=](int64_t from, int64_t to) { adagrad(loop, m.p + from, m.g + from, m.s[0] + from, to - from); };
}

Pass make_pass(const std::string& rule, const Attributes& a, const UpdateScalars& scalars, float scale,
               const Memory& m) {
  if (rule == "sgd_update") return sgd_pass(a, scalars, scale, m);
  if (rule == "adam_update") return adam_pass(a, scalars, scale, m);
  if (rule == "rmsprop_update") return rmsprop_pass(a, scalars, scale, m);
  if (rule == "adagrad_update") return adagrad_pass(a, scalars, scale, m);
  if (rule == "running_average_update") {
    const float momentum = real(a, "momentum");
    return [=](int64_t from, int64_t to) {
      running_average(momentum, scale, m.p + from, m.g + from, to - from);
    };
  }
  throw run_error("the CPU device has no rule for '{}'", rule);
}

}  // namespace

bool CpuUpdater::run(const Section& section, const UpdateBindings& bindings, const UpdateScalars& scalars,
                     float scale, size_t begin, size_t end) const {
  Memory memory{reinterpret_cast<float*>(bindings.parameters + begin),
                reinterpret_cast<const float*>(bindings.gradients + (begin - bindings.gradients_begin)),
                {}};
  for (const size_t index : section.states) {
    memory.s.push_back(reinterpret_cast<float*>(bindings.states[index] + begin));
  }
  const Pass pass = make_pass(section.rule, section.attributes, scalars, scale, memory);
  std::atomic<bool> finite = true;
  // In blocks: the gradient is still in the first-level cache when the rule reads it after the check.
  const auto update = [&](int64_t first, int64_t last) {
    constexpr int64_t kBlock = 4096;
    for (int64_t from = first; from < last; from += kBlock) {
      const int64_t to = std::min(last, from + kBlock);
      if (!all_finite(memory.g + from, to - from)) finite.store(false, std::memory_order_relaxed);
      pass(from, to);
    }
  };
  // Each thread has its part of every parameter, not of the section: where a layer's product is shared out by output features,
  // they are the weights that this thread alone has read, and that no other core must give up first (see linear.cpp).
  const int threads = useful_threads(static_cast<int64_t>((end - begin) / sizeof(float)), kGrain);
#pragma omp parallel num_threads(threads)
  {
    const auto team = static_cast<size_t>(omp_get_num_threads());
    const auto member = static_cast<size_t>(omp_get_thread_num());
    size_t from = begin;
    for (const size_t parameter_end : section.parameters) {
      const size_t to = std::min(end, parameter_end);
      if (from >= to) continue;
      const size_t lines = (to - from) / kAlignment;
      const size_t first = from + lines * member / team * kAlignment;
      const size_t last = member + 1 == team ? to : from + lines * (member + 1) / team * kAlignment;
      update(static_cast<int64_t>((first - begin) / sizeof(float)),
             static_cast<int64_t>((last - begin) / sizeof(float)));
      from = to;
    }
  }
  return finite;
}

}  // namespace telar::cpu
