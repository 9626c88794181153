#include "telar/strategy/strategy.h"

#include "telar/core/error.h"
#include "telar/core/suggest.h"

namespace telar {

std::vector<std::string> strategy_names() {
  std::vector<std::string> names = {"single", "mirrored", "pipeline"};
  for (const std::string& name : server_strategy_names()) names.push_back(name);
  return names;
}

std::vector<std::string> server_strategy_names() {
  return {"async_sgd", "downpour", "sync_ps", "parameter_averaging"};
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, const StrategyOptions& options) {
  if (name == "single") return make_single();
  if (name == "mirrored") return make_mirrored(options);
  if (name == "pipeline") return make_pipeline(options);
  if (name == "async_sgd") return make_async_sgd(options);
  if (name == "downpour") return make_downpour(options);
  if (name == "sync_ps") return make_sync_ps(options);
  if (name == "parameter_averaging") return make_parameter_averaging(options);
  const std::string near = nearest(name, strategy_names());
  throw user_error("unknown strategy '{}'; {}the strategies are {}", name,
                   near.empty() ? "" : "did you mean '" + near + "'? ", one_of(strategy_names()));
}

}  // namespace telar
