#include "telar/cli/phase_text.h"

#include <fmt/format.h>

#include <vector>

#include "telar/cli/table.h"

namespace telar::cli {

std::string phase_text(const PhaseSummary& summary) {
  std::vector<std::vector<std::string>> rows = {{"phase", "mean ms", "median ms", "of the step"}};
  const auto add = [&](const std::string& name, double mean, double median) {
    rows.push_back({name, fmt::format("{:.3f}", 1e3 * mean), fmt::format("{:.3f}", 1e3 * median),
                    fmt::format("{:.1f} %", summary.mean.step > 0 ? 100 * mean / summary.mean.step : 0)});
  };
  for (size_t p = 0; p < kStepPhases; ++p)
    add(name_of(static_cast<StepPhase>(p)), summary.mean.seconds[p], summary.median.seconds[p]);
  add("step", summary.mean.step, summary.median.step);
  return table_text(rows, 1) + fmt::format("over {} steps, without the first {}, which compile and warm up\n",
                                           summary.steps, summary.left_out);
}

}  // namespace telar::cli
