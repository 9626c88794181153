#include "telar/strategy/strategy.h"

#include "telar/core/error.h"
#include "telar/core/suggest.h"

namespace telar {

std::vector<std::string> strategy_names() { return {"single", "mirrored", "pipeline"}; }

std::unique_ptr<Strategy> make_strategy(const std::string& name, const StrategyOptions& options) {
  if (name == "single") return make_single();
  if (name == "mirrored") return make_mirrored(options);
  if (name == "pipeline") return make_pipeline(options);
  const std::string near = nearest(name, strategy_names());
  throw user_error("unknown strategy '{}'; {}the strategies are {}", name,
                   near.empty() ? "" : "did you mean '" + near + "'? ", one_of(strategy_names()));
}

}  // namespace telar
