#include "telar/cli/options.h"

#include <fmt/format.h>

namespace telar::cli {

void add_overrides(Verb& verb, std::vector<std::string>& overrides) {
  verb.option("--set", overrides, "Override a key of the job, as in training.epochs=3")
      .value_name("KEY=VALUE")
      .one_value_at_a_time();
}

std::string metrics_text(const std::vector<std::string>& names, const std::vector<double>& means) {
  std::vector<std::string> parts;
  for (size_t m = 0; m < names.size(); ++m) parts.push_back(fmt::format("{} {:.4f}", names[m], means[m]));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace telar::cli
