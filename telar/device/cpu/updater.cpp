#include "telar/device/cpu/updater.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "telar/core/buffer.h"
#include "telar/device/cpu/optimizer_loops.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kFloatsAThread = 8192;  // floats for each thread

/// The memory of a section's rule.
struct Memory {
  float* p;
  const float* g;
  std::vector<float*> s;
};

/// A pass of a rule over the floats [from, from + count) of the section.
struct Pass {
  const Memory& m;
  int64_t from;
  int64_t count;

  float* p() const { return m.p + from; }
  const float* g() const { return m.g + from; }
  float* s(size_t i) const { return m.s[i] + from; }

  void operator()(const SgdRule& rule) const {
    if (m.s.empty()) {
      sgd_plain(rule, p(), g(), count);
    } else {
      sgd_momentum(rule, p(), g(), s(0), count);
    }
  }
  void operator()(const AdamRule& rule) const { adam(rule, p(), g(), s(0), s(1), count); }
  void operator()(const RmspropRule& rule) const {
    if (m.s.size() == 1) {
      rmsprop_plain(rule, p(), g(), s(0), count);
    } else {
      rmsprop_momentum(rule, p(), g(), s(0), s(1), count);
    }
  }
  void operator()(const AdagradRule& rule) const { adagrad(rule, p(), g(), s(0), count); }
  void operator()(const RunningAverageRule& rule) const { running_average(rule, p(), g(), count); }
};

}  // namespace

double CpuUpdater::sum_of_squares(const UpdateBindings& bindings, size_t begin, size_t end) const {
  double sum = 0;
  for (const UpdateSection& section : plan_.sections) {
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
  if (bindings.loss != nullptr && (!std::isfinite(*bindings.loss) || *bindings.non_finite != 0)) {
    *bindings.non_finite = 1;
    return true;
  }
  const float clip = clip_factor_of(plan_.max_norm, sum_of_squares, scalars.samples);
  bool finite = true;
  for (const UpdateSection& section : plan_.sections) {
    const size_t from = std::max(begin, section.begin);
    const size_t to = std::min(end, section.end);
    if (from >= to) continue;
    const UpdateRule rule = rule_of(section, scalars, (section.clipped ? clip : 1.0F) / scalars.samples);
    finite = run(section, bindings, rule, from, to) && finite;
  }
  if (bindings.non_finite == nullptr) return finite;
  if (!finite) *bindings.non_finite = 1;
  return true;
}

bool CpuUpdater::run(const UpdateSection& section, const UpdateBindings& bindings, const UpdateRule& rule,
                     size_t begin, size_t end) const {
  Memory memory{reinterpret_cast<float*>(bindings.parameters + begin),
                reinterpret_cast<const float*>(bindings.gradients + (begin - bindings.gradients_begin)),
                {}};
  for (const size_t index : section.states) {
    memory.s.push_back(reinterpret_cast<float*>(bindings.states[index] + (begin - bindings.states_begin)));
  }
  std::atomic<bool> finite = true;
  // In blocks, so that the gradient is still in the L1 cache when the rule reads it after the check.
  const auto update = [&](int64_t first, int64_t last) {
    constexpr int64_t kBlock = 4096;
    for (int64_t from = first; from < last; from += kBlock) {
      const int64_t to = std::min(last, from + kBlock);
      if (!all_finite(memory.g + from, to - from)) finite.store(false, std::memory_order_relaxed);
      std::visit(Pass{memory, from, to - from}, rule);
    }
  };
  // Each thread updates a part of every parameter, not of the section. When a layer's product is divided by
  // output features, those are the weights that only this thread has read. So no other core has to release
  // them first (see linear.cpp).
  const int threads = useful_threads(static_cast<int64_t>((end - begin) / sizeof(float)), kFloatsAThread);
  Team::of_this_thread().run(threads, [&](size_t member, size_t members) {
    size_t from = begin;
    for (const size_t parameter_end : section.parameters) {
      const size_t to = std::min(end, parameter_end);
      if (from >= to) continue;
      const size_t lines = (to - from) / kAlignment;
      const size_t first = from + lines * member / members * kAlignment;
      const size_t last = member + 1 == members ? to : from + lines * (member + 1) / members * kAlignment;
      update(static_cast<int64_t>((first - begin) / sizeof(float)),
             static_cast<int64_t>((last - begin) / sizeof(float)));
      from = to;
    }
  });
  return finite;
}

}  // namespace telar::cpu
