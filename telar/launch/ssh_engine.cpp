#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "telar/launch/child_engine.h"
#include "telar/launch/engines.h"
#include "telar/launch/shell_word.h"

namespace telar {

namespace {

/// ssh's own exit code: there is no connection, or none any more.
constexpr int kNoConnection = 255;
constexpr auto kBetweenStarts = std::chrono::milliseconds(100);

class SshEngine final : public ChildEngine {
 public:
  SshEngine(std::vector<LaunchSlot> slots, std::vector<std::string> ssh)
      : slots_(std::move(slots)), ssh_(std::move(ssh)) {}
  std::vector<LaunchSlot> slots() override { return slots_; }

 private:
  /// The values of variables are the first lines of the standard input. The shell stays, so that a process
  /// that is killed ends with the code of the signal; without it, ssh would say 255.
  Launched launched(const LaunchSlot& slot, const LaunchCommand& command) override {
    // sshd refuses connections when some ten of them have not logged in yet (MaxStartups).
    const auto now = std::chrono::steady_clock::now();
    auto& next = next_start_[slot.host];
    std::this_thread::sleep_until(next);
    next = std::max(now, next) + kBetweenStarts;
    std::string script;
    std::string input;
    for (const auto& [name, value] : command.environment) {
      script += fmt::format("IFS= read -r {0} && export {0} && ", name);
      input += value + "\n";
    }
    script += "cd " + shell_word(std::filesystem::current_path().string()) + " &&";
    for (const std::string& word : command.words) script += " " + shell_word(word);
    std::vector<std::string> words = ssh_;
    // 20 s until a host that does not answer is lost, as for peers.
    for (const char* option :
         {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=4"})
      words.insert(words.end(), {"-o", option});
    words.insert(words.end(), {"-T", slot.host, "exec sh -c " + shell_word(script + "; exit $?")});
    return {.start = {.name = "ssh to " + slot.host, .words = std::move(words), .environment = {}, .log = {}},
            .input = std::move(input)};
  }
  LaunchEnding ending(const LaunchSlot& /*slot*/, int code) override {
    return {.code = code, .host_lost = code == kNoConnection};
  }

  std::vector<LaunchSlot> slots_;
  std::vector<std::string> ssh_;
  std::map<std::string, std::chrono::steady_clock::time_point> next_start_;  ///< by host
};

}  // namespace

std::unique_ptr<LaunchEngine> ssh_engine(std::vector<LaunchSlot> slots, std::vector<std::string> ssh) {
  return std::make_unique<SshEngine>(std::move(slots), std::move(ssh));
}

}  // namespace telar
