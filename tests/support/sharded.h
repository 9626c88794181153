#pragma once

#include <string>
#include <vector>

#include "support/grids.h"

namespace telar::test {

/// The strategy `sharded` with its stage, for models so small that by default nothing would be divided.
struct Sharding {
  int64_t stage = 1;
  int replicas = 2;  ///< in this process
  Processes* processes = nullptr;

  std::string text() const {
    return "stage " + std::to_string(stage) + " with " + std::to_string(replicas) + " replicas";
  }
  std::unique_ptr<Session> session(const Model& model, const StepOptions& step) const {
    return make_session(model, step,
                        {.replicas = replicas,
                         .name = "sharded",
                         .strategy = {{"stage", stage},
                                      {"whole_below", int64_t{64}},
                                      {"bucket_mb", 1.0 / 64},
                                      {"batch_norm", "synchronised"}},
                         .session = {.seed = 11, .processes = processes}});
  }
};

}  // namespace telar::test
