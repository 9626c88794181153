#pragma once

#include "telar/device/update_sections.h"

namespace telar::cpu {

/// The update graph as passes over flat memory.
class CpuUpdater final : public Updater {
 public:
  CpuUpdater(const Graph& update, const ArenaLayout& arena) : plan_(sections_of(update, arena)) {}

  bool clips() const override { return plan_.max_norm > 0; }
  double sum_of_squares(const UpdateBindings& bindings, size_t begin, size_t end) const override;
  bool apply(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
             size_t begin, size_t end) const override;

 private:
  bool run(const UpdateSection& section, const UpdateBindings& bindings, const UpdateRule& rule, size_t begin,
           size_t end) const;

  UpdateSections plan_;
};

}  // namespace telar::cpu
