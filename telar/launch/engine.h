#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace telar {

/// A place where an engine can run one process. A host with four places is listed four times.
struct LaunchSlot {
  std::string host;     ///< its name, for messages and for the engine
  std::string address;  ///< by which processes on other hosts reach it: a name or an IP address
};

struct LaunchCommand {
  std::vector<std::string> words;                  ///< the program and its arguments
  std::map<std::string, std::string> environment;  ///< in addition to that of the host; may be secret
  bool trains = true;  ///< false: it computes little, and shares its place with others
};

/// How a process has ended.
struct LaunchEnding {
  int code = 0;            ///< as a shell reports it: 128 + N after signal N
  bool host_lost = false;  ///< the engine has lost its host, or could not reach it
};

struct LaunchEvent {
  int process = 0;                    ///< as start() has returned it
  std::string line = {};              ///< of its standard output
  std::optional<LaunchEnding> ended;  ///< its last event; no line then
};

/// What runs processes on hosts. Its destructor ends all of them. The standard input of a process stays open
/// until the engine, or the process that has the engine, is to end it: a supervised process ends then.
class LaunchEngine {
 public:
  virtual ~LaunchEngine() = default;
  /// The places that it has now. Throws Error (user) if it is not there.
  virtual std::vector<LaunchSlot> slots() = 0;
  /// Starts a process and returns its number. Throws Error (run).
  virtual int start(const LaunchSlot& slot, const LaunchCommand& command) = 0;
  /// What has happened since the last call. Does not wait.
  virtual std::vector<LaunchEvent> poll() = 0;
  /// Asks a process to end, with a checkpoint if it trains. `at_once`: kills it.
  virtual void stop(int process, bool at_once) = 0;
};

}  // namespace telar
