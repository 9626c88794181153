#include "telar/strategy/strategy_like.h"

#include <map>

#include "telar/core/suggest.h"
#include "telar/strategy/strategy.h"

namespace telar {

std::string strategy_like(const std::string& word) {
  // What other systems call it.
  static const std::map<std::string, std::string> elsewhere = {{"data_parallel", "mirrored"},
                                                               {"ddp", "mirrored"},
                                                               {"deepspeed", "sharded"},
                                                               {"dp", "mirrored"},
                                                               {"fedavg", "parameter_averaging"},
                                                               {"fsdp", "sharded"},
                                                               {"gpipe", "pipeline"},
                                                               {"horovod", "mirrored"},
                                                               {"megatron", "tensor"},
                                                               {"parameter_server", "sync_ps"},
                                                               {"pp", "pipeline"},
                                                               {"ps", "sync_ps"},
                                                               {"tp", "tensor"},
                                                               {"zero", "sharded"}};
  const auto found = elsewhere.find(word);
  return found != elsewhere.end() ? found->second : nearest(word, strategy_names());
}

}  // namespace telar
