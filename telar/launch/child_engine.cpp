#include "telar/launch/child_engine.h"

#include <signal.h>

#include <optional>
#include <utility>

#include "telar/launch/piped_child.h"

namespace telar {

struct ChildEngine::Child {
  LaunchSlot slot;
  PipedChild process;
};

ChildEngine::ChildEngine() = default;

ChildEngine::~ChildEngine() {
  for (const auto& child : children_)
    if (child) child->process.close_input();
  const auto last = std::chrono::steady_clock::now() + PipedChild::kEndsWithin;
  for (const auto& child : children_)
    if (child) child->process.end(last);
}

int ChildEngine::start(const LaunchSlot& slot, const LaunchCommand& command) {
  Launched what = launched(slot, command);
  children_.push_back(
      std::make_unique<Child>(Child{.slot = slot, .process = PipedChild(std::move(what.start), what.input)}));
  return static_cast<int>(children_.size()) - 1;
}

std::vector<LaunchEvent> ChildEngine::poll() {
  std::vector<LaunchEvent> events;
  for (size_t number = 0; number < children_.size(); ++number) {
    auto& child = children_[number];
    if (!child) continue;
    const auto process = static_cast<int>(number);
    const std::optional<int> code = child->process.code();
    for (std::string& line : child->process.read_lines())
      events.push_back({.process = process, .line = std::move(line), .ended = {}});
    if (!code) continue;
    events.push_back({.process = process, .ended = ending(child->slot, *code)});
    child.reset();
  }
  return events;
}

void ChildEngine::stop(int process, bool at_once) {
  const auto& child = children_.at(static_cast<size_t>(process));
  if (!child) return;
  child->process.close_input();
  if (at_once) ::kill(-child->process.pid(), killing_signal());
}

int ChildEngine::killing_signal() const { return SIGKILL; }

}  // namespace telar
