#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "telar/core/error.h"
#include "telar/launch/engines.h"
#include "telar/launch/piped_child.h"
#include "telar/launch/ray_engine_text.h"

namespace telar {

namespace {

constexpr std::chrono::seconds kAnswersWithin{60};

/// Python speaks with Ray; ray_engine.py says which messages the two exchange.
class RayEngine final : public LaunchEngine {
 public:
  RayEngine(const std::string& address, const std::string& python, int cpus)
      : child_({.name = "--on ray: Python",
                .words = {python, "-c", kRayEngineText, address, std::to_string(cpus),
                          std::filesystem::current_path().string()},
                .environment = {{"RAY_USAGE_STATS_ENABLED", "0"}},
                .log = {}}) {
    await_slots();
    if (slots_.empty()) throw user_error("--on ray: no node of the cluster has {} CPUs", std::max(1, cpus));
  }
  ~RayEngine() override { child_.end(); }
  RayEngine(const RayEngine&) = delete;
  RayEngine& operator=(const RayEngine&) = delete;

  std::vector<LaunchSlot> slots() override {
    ask({{"call", "slots"}});
    await_slots();
    return slots_;
  }
  int start(const LaunchSlot& slot, const LaunchCommand& command) override {
    ask({{"call", "start"},
         {"process", processes_},
         {"node", nodes_.at(slot.host)},
         {"trains", command.trains},
         {"words", command.words},
         {"environment", command.environment}});
    return processes_++;
  }
  std::vector<LaunchEvent> poll() override {
    read();
    return std::exchange(events_, {});
  }
  void stop(int process, bool at_once) override {
    ask({{"call", "stop"}, {"process", process}, {"at_once", at_once}});
  }

 private:
  void ask(const nlohmann::json& request) {
    if (!child_.write(request.dump() + "\n")) throw run_error("the process that speaks with Ray has ended");
  }

  void await_slots() {
    slots_come_ = true;
    for (const auto end = std::chrono::steady_clock::now() + kAnswersWithin; slots_come_;
         std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
      if (std::chrono::steady_clock::now() > end)
        throw run_error("Ray has not said within 60 s which nodes it has");
      read();
    }
  }

  void read() {
    const std::optional<int> code = child_.code();
    for (const std::string& line : child_.read_lines()) take(nlohmann::json::parse(line));
    if (code) throw run_error("the process that speaks with Ray has ended with exit code {}", *code);
  }

  void take(const nlohmann::json& message) {
    if (message.contains("refused"))
      throw user_error("--on ray: {}", message.at("refused").get<std::string>());
    if (message.contains("slots")) {
      slots_come_ = false;
      slots_.clear();
      for (const nlohmann::json& slot : message.at("slots")) {
        slots_.push_back({slot.at("host"), slot.at("address")});
        nodes_[slots_.back().host] = slot.at("node");
      }
      return;
    }
    LaunchEvent event{.process = message.at("process"), .ended = {}};
    if (message.contains("line"))
      event.line = message.at("line");
    else
      event.ended = {.code = message.at("code"), .host_lost = message.at("host_lost")};
    events_.push_back(std::move(event));
  }

  PipedChild child_;
  std::vector<LaunchSlot> slots_;
  std::map<std::string, std::string> nodes_;  ///< Ray's id, by host; also of those that are lost
  bool slots_come_ = false;                   ///< they were asked for
  std::vector<LaunchEvent> events_;
  int processes_ = 0;
};

}  // namespace

std::unique_ptr<LaunchEngine> ray_engine(const std::string& address, const std::string& python, int cpus) {
  return std::make_unique<RayEngine>(address, python, cpus);
}

}  // namespace telar
