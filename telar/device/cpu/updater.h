#pragma once

#include "telar/device/device.h"

namespace telar::cpu {

/// The update graph as passes over flat memory: parameters with the same rule that lie one behind the other are one
/// section.
class CpuUpdater final : public Updater {
 public:
  CpuUpdater(const Graph& update, const ArenaLayout& arena);

  bool clips() const override { return max_norm_ > 0; }
  double sum_of_squares(const UpdateBindings& bindings, size_t begin, size_t end) const override;
  bool apply(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
             size_t begin, size_t end) const override;

 private:
  struct Section {
    size_t begin, end;               ///< bytes in the arena
    std::vector<size_t> parameters;  ///< where each of them ends
    std::string rule;                ///< name of the operation
    Attributes attributes;
    std::vector<size_t> states;  ///< indices into UpdateBindings::states
    bool clipped;
  };

  bool run(const Section& section, const UpdateBindings& bindings, const UpdateScalars& scalars, float scale,
           size_t begin, size_t end) const;

  std::vector<Section> sections_;
  double max_norm_ = 0;
};

}  // namespace telar::cpu
