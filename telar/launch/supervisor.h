#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "telar/launch/engine.h"

namespace telar {

/// What a supervised process says on its standard output, each in a line of its own: where the others join,
/// or where a parameter server listens ("@address HOST:PORT"), and the number of the first step that it has
/// completed since its start ("@step N"). Another one that says where the others join has taken over from the
/// first.
inline constexpr char kAddressLine[] = "@address ";
inline constexpr char kStepLine[] = "@step ";

/// A run of processes: the first one leads it, and the others join it. They train in lockstep, or are the
/// workers of parameter servers, which are further processes.
struct LaunchPlan {
  int processes = 1;     ///< that train: with parameter servers, the others; otherwise the first one, too
  bool elastic = false;  ///< the others go on when one is lost, and another may take its place
  bool workers = false;  ///< so it is at any time, because the others are workers of parameter servers
  int servers = 0;       ///< parameter servers that are started; they share places with those that train
  bool copies = false;   ///< a server that is lost with its host is not missed
  int restarts = 3;      ///< after failures (exit code 1)
  int least = 1;         ///< processes without which the run cannot be started
  bool resume = false;   ///< whether the first start resumes the run; all later ones do
  /// The command of the first process. `processes`: how many there are this time; `servers`: where they are.
  std::function<LaunchCommand(int processes, bool resume, const std::vector<std::string>& servers)> first;
  /// The command of another one, which joins at `address`, HOST:PORT.
  std::function<LaunchCommand(const std::string& address)> other;
  /// The command of a server. `port`: where the one whose place it takes has listened; 0: it is a new one.
  std::function<LaunchCommand(int server, int port)> server;
  std::function<void(const std::string&)> say;   ///< what the supervisor does, a sentence
  std::function<void(const std::string&)> show;  ///< a line that the first process has printed
};

/// Keeps a run going on an engine. It reads no clock and waits for nothing.
///
/// A process that was killed, that could not be started, that has failed or is lost with its host, is
/// replaced, if the run is elastic and has completed a step, and, if it was the first, another one says that
/// it leads; otherwise the run is started again, from its checkpoint. So is a run that has failed (exit code
/// 1), LaunchPlan::restarts times. A run that was stopped (129, 130, 143), or found a mistake that the user
/// can correct (2 and further codes), ends. After 5 deaths in a row, with no later checkpoint between them,
/// the run ends, too. A host that was lost is used again when the others have too few places.
///
/// Workers of parameter servers are always replaced. A server is started again where it was. If it is lost
/// with its host, the run goes on with the copies of other servers, or is started again if there are none.
class Supervisor {
 public:
  /// Throws Error (user) if the engine has too few slots; an elastic run begins with `least`.
  Supervisor(LaunchEngine& engine, LaunchPlan plan);

  /// Looks after the run. `now`: seconds of a clock that never goes back. Call it often. Returns the exit
  /// code of the run when it is over: then no process is left. Throws Error.
  std::optional<int> advance(double now);
  /// Asks the run to end with a checkpoint, as signal `number` does to a run without a supervisor.
  void stop(int number) { stopping_ = stopping_ == 0 ? number : stopping_; }

 private:
  struct Member {
    int process = -1;  ///< the engine's number; -1: it could not be started
    int server = -1;   ///< its number, if it is a parameter server
    LaunchSlot slot;
    double started = 0;
    std::optional<LaunchEnding> ended = std::nullopt;
    std::optional<double> stops_at = std::nullopt;   ///< when it is asked to end
    std::optional<double> killed_at = std::nullopt;  ///< when it is killed if it has not ended
    bool killed = false;
  };

  struct Server {
    LaunchSlot slot;
    std::string address = {};                        ///< HOST:PORT; empty: not known yet
    int quick_deaths = 0;                            ///< in a row
    std::optional<double> starts_at = std::nullopt;  ///< in place of one that has ended
  };

  void begin(double now);
  void start(const LaunchSlot& slot, const LaunchCommand& command, double now, int server = -1);
  void start_servers(double now);
  void start_first(double now);
  void start_others(double now);
  void take(const LaunchEvent& event, double now);
  void ended(size_t member, const LaunchEnding& ending, double now);
  void server_said(const Member& member, const std::string& line, double now);
  void server_ended(const Member& member, double now);
  void first_said(const std::string& line, double now);
  void learn_address(const std::string& line);
  void succeed(size_t other, const std::string& line, double now);
  void one_is_missing(const Member& lost, double now);
  void first_ended(double now);
  void other_ended(const Member& other, double now);
  void worker_ended(const Member& worker, double now);
  void require_a_worker(double now);
  void end_run(double now);
  void replace_servers(double now);
  void replace_lost(double now);
  void end_those_due(double now);
  std::optional<int> decide(double now);
  void again(double now, double pause, const std::string& which);
  std::vector<LaunchSlot> usable_slots(int least);
  bool has_first() const { return first_ < members_.size(); }  ///< not before the servers are there
  bool first_is_gone() const { return has_first() && members_[first_].ended; }
  Member& first() { return members_[first_]; }

  LaunchEngine& engine_;
  LaunchPlan plan_;
  std::vector<Member> members_;  ///< of this start of the run
  size_t first_ = 0;             ///< the one that leads
  std::vector<Server> servers_;
  std::set<std::string> lost_hosts_;
  std::vector<LaunchSlot> slots_;  ///< of this start
  std::string address_;            ///< where others join; empty: not known yet
  int processes_ = 0;              ///< of this start
  int stopping_ = 0;               ///< the signal; 0: not asked to end
  bool stop_passed_on_ = false;
  std::optional<double> next_start_ = 0.0;  ///< of the run; none: it has been started
  std::optional<double> next_other_;        ///< when a process takes the place of a lost one
  int missing_ = 0;                         ///< processes that are to be replaced
  int quick_deaths_ = 0;                    ///< of others, in a row
  int64_t step_ = 0;                        ///< the first one completed in this start; 0: none yet
  int64_t furthest_ = 0;                    ///< the largest of all starts
  int deaths_ = 0;                          ///< in a row, from the same checkpoint
  int failures_ = 0;
  bool someone_died_ = false;      ///< in this start, and the run has not gone on since
  std::optional<double> died_at_;  ///< when another one has last died
  int others_code_ = 0;            ///< the largest exit code of the others, without signals
};

}  // namespace telar
