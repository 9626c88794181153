#include "telar/launch/child_engine.h"
#include "telar/launch/engines.h"

namespace telar {

namespace {

class LocalEngine final : public ChildEngine {
 public:
  explicit LocalEngine(int places) : places_(places) {}
  std::vector<LaunchSlot> slots() override {
    return std::vector<LaunchSlot>(static_cast<size_t>(places_), {"this host", "127.0.0.1"});
  }

 private:
  Launched launched(const LaunchSlot& slot, const LaunchCommand& command) override {
    return {.start = {.name = "the process on " + slot.host,
                      .words = command.words,
                      .environment = command.environment,
                      .log = {}}};
  }
  LaunchEnding ending(const LaunchSlot& /*slot*/, int code) override { return {.code = code}; }

  int places_;
};

}  // namespace

std::unique_ptr<LaunchEngine> local_engine(int places) { return std::make_unique<LocalEngine>(places); }

}  // namespace telar
