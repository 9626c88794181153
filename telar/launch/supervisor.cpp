#include "telar/launch/supervisor.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "telar/comm/network.h"
#include "telar/core/error.h"
#include "telar/train/shared_task.h"

namespace telar {

namespace {

constexpr int kMostDeaths = 5;
constexpr double kQuickDeath = 10;       // seconds
constexpr double kGrace = 5;             // for the others to end by themselves when the first has ended
constexpr double kNoticesLoss = 60;      // for the first to end when another one has; it notices within 26 s
constexpr double kSavesWithin = 300;     // for what is asked to end
constexpr double kPauseOfAnother = 0.2;  // before a process takes the place of a lost one
constexpr double kLongestPause = 30;     // before a run is started again

constexpr int kFailed = 1;
constexpr int kWrong = 2;
constexpr int kSignals = 128;

bool is_stopped(int code) {
  return code == kSignals + SIGHUP || code == kSignals + SIGINT || code == kSignals + SIGTERM ||
         code == kStoppedUnstored;
}

bool is_dead(const LaunchEnding& ending) {
  return ending.host_lost || (ending.code > kSignals && !is_stopped(ending.code));
}

/// Repeating the same would fail again: a wrong job or option (2), a program that is not there (126, 127).
bool is_wrong(const LaunchEnding& ending) {
  return !ending.host_lost && ending.code > kFailed && ending.code < kSignals && !is_stopped(ending.code);
}

std::string text_of(const LaunchEnding& ending) {
  if (ending.host_lost) return "is lost with its host, or the host cannot be reached";
  if (ending.code > kSignals) return fmt::format("was killed by signal {}", ending.code - kSignals);
  return fmt::format("has ended with exit code {}", ending.code);
}

uint16_t port_of(const std::string& address_line) {
  return Address::parse(address_line.substr(sizeof kAddressLine - 1)).port;
}

}  // namespace

Supervisor::Supervisor(LaunchEngine& engine, LaunchPlan plan) : engine_(engine), plan_(std::move(plan)) {
  const int needed = plan_.elastic ? plan_.least : plan_.processes;
  if (const size_t slots = engine_.slots().size(); std::cmp_less(slots, needed))
    throw user_error("the run is to have {} processes, but there {} for {} only", needed,
                     slots == 1 ? "is a place" : "are places", slots);
}

std::optional<int> Supervisor::advance(double now) {
  for (const LaunchEvent& event : engine_.poll()) take(event, now);
  if (stopping_ != 0 && !std::exchange(stop_passed_on_, true)) {
    if (next_start_) return kSignals + stopping_;  // nothing runs
    end_run(now);
  }
  if (next_start_ && now >= *next_start_) begin(now);
  replace_servers(now);
  replace_lost(now);
  end_those_due(now);
  const bool runs = next_start_ || std::ranges::any_of(members_, [](const Member& m) { return !m.ended; });
  return runs ? std::nullopt : decide(now);
}

std::vector<LaunchSlot> Supervisor::usable_slots(int least) {
  std::vector<LaunchSlot> all = engine_.slots();
  std::vector<LaunchSlot> usable;
  std::ranges::copy_if(all, std::back_inserter(usable),
                       [&](const LaunchSlot& slot) { return !lost_hosts_.contains(slot.host); });
  if (std::cmp_greater_equal(usable.size(), least)) return usable;
  lost_hosts_.clear();
  return all;
}

void Supervisor::begin(double now) {
  next_start_.reset();
  next_other_.reset();
  members_.clear();
  servers_.clear();
  first_ = std::numeric_limits<size_t>::max();
  address_.clear();
  missing_ = quick_deaths_ = others_code_ = 0;
  step_ = 0;
  someone_died_ = false;
  died_at_.reset();
  slots_ = usable_slots(plan_.least);
  if (slots_.empty()) throw run_error("there is no place where the run can go on");
  processes_ = std::min(plan_.processes, static_cast<int>(slots_.size()));
  if (processes_ < plan_.processes)
    plan_.say(fmt::format("the run goes on with {} of {} processes: there are no other places", processes_,
                          plan_.processes));
  if (plan_.servers == 0) return start_first(now);
  start_servers(now);
}

/// Each on another host, as far as there are enough, so that a lost host is one lost server.
void Supervisor::start_servers(double now) {
  std::vector<LaunchSlot> hosts;
  for (const LaunchSlot& slot : slots_)
    if (std::ranges::find(hosts, slot.host, &LaunchSlot::host) == hosts.end()) hosts.push_back(slot);
  for (int server = 0; server < plan_.servers; ++server)
    servers_.push_back({.slot = hosts[static_cast<size_t>(server) % hosts.size()]});
  for (int server = 0; server < plan_.servers && !someone_died_ && others_code_ == 0; ++server)
    start(servers_[static_cast<size_t>(server)].slot, plan_.server(server, 0), now, server);
}

void Supervisor::start_first(double now) {
  std::vector<std::string> servers;
  for (const Server& server : servers_) servers.push_back(server.address);
  first_ = members_.size();
  start(slots_[0], plan_.first(processes_, plan_.resume, servers), now);
  plan_.resume = true;
}

/// A process that the engine cannot start is one that is lost at once.
void Supervisor::start(const LaunchSlot& slot, const LaunchCommand& command, double now, int server) {
  members_.push_back({.server = server, .slot = slot, .started = now});
  try {
    members_.back().process = engine_.start(slot, command);
  } catch (const Error& error) {
    plan_.say(error.what());
    const bool would_again = error.kind() == Error::Kind::user;
    ended(members_.size() - 1, {.code = would_again ? kWrong : kFailed, .host_lost = !would_again}, now);
  }
}

void Supervisor::start_others(double now) {
  for (int other = plan_.workers ? 0 : 1; other < processes_; ++other)
    start(slots_[static_cast<size_t>(other)], plan_.other(address_), now);
}

void Supervisor::take(const LaunchEvent& event, double now) {
  const auto found = std::ranges::find(members_, event.process, &Member::process);
  if (found == members_.end()) return;
  const auto member = static_cast<size_t>(found - members_.begin());
  if (event.ended)
    ended(member, *event.ended, now);
  else if (members_[member].server >= 0)
    server_said(members_[member], event.line, now);
  else if (member == first_)
    first_said(event.line, now);
  else if (event.line.starts_with(kAddressLine))
    succeed(member, event.line, now);
}

void Supervisor::ended(size_t member, const LaunchEnding& ending, double now) {
  members_[member].ended = ending;
  if (ending.host_lost) lost_hosts_.insert(members_[member].slot.host);
  const Member lost = members_[member];  // another one may be started
  if (lost.server >= 0)
    server_ended(lost, now);
  else if (member == first_)
    first_ended(now);
  else
    other_ended(lost, now);
}

void Supervisor::server_said(const Member& member, const std::string& line, double now) {
  if (!line.starts_with(kAddressLine)) return;
  Server& server = servers_[static_cast<size_t>(member.server)];
  server.address = Address{server.slot.address, port_of(line)}.text();
  const bool all_are_there =
      std::ranges::none_of(servers_, [](const Server& other) { return other.address.empty(); });
  if (all_are_there && !has_first() && stopping_ == 0 && others_code_ == 0 && !someone_died_)
    start_first(now);
}

/// Its clients know one address of it, so it is started again where it was.
void Supervisor::server_ended(const Member& member, double now) {
  const LaunchEnding& ending = *member.ended;
  if (stopping_ != 0 || member.stops_at || member.killed_at || first_is_gone()) return;
  plan_.say(fmt::format("parameter server {}, on {}, {}", member.server, member.slot.host, text_of(ending)));
  Server& server = servers_[static_cast<size_t>(member.server)];
  server.quick_deaths = now - member.started < kQuickDeath ? server.quick_deaths + 1 : 0;
  if (!has_first() && (is_wrong(ending) || (ending.code == kFailed && !ending.host_lost))) {
    others_code_ = std::max(others_code_, ending.code);
    return end_run(now);
  }
  someone_died_ = true;
  died_at_ = now;
  if (ending.host_lost && plan_.copies && step_ > 0)
    return plan_.say("the run goes on with the copies that other servers have");
  if (!has_first() || ending.host_lost || server.quick_deaths >= kMostDeaths) return end_run(now);
  server.starts_at = now + kPauseOfAnother * server.quick_deaths;
}

/// With a checkpoint, if it has begun.
void Supervisor::end_run(double now) {
  for (Member& member : members_)
    if (!member.ended && (!has_first() || &member == &first()) && !member.killed_at) member.stops_at = now;
}

void Supervisor::first_said(const std::string& line, double now) {
  if (line.starts_with(kAddressLine)) {
    learn_address(line);
    start_others(now);
  } else if (line.starts_with(kStepLine)) {
    const std::string_view digits = std::string_view(line).substr(sizeof kStepLine - 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), step_);
  } else {
    plan_.show(line);
  }
}

/// It says where it listens; a host's own name for itself may mean nothing to others.
void Supervisor::learn_address(const std::string& line) {
  address_ = Address{first().slot.address, port_of(line)}.text();
}

/// Another one leads now. The engine may not have noticed yet that the first has ended.
void Supervisor::succeed(size_t other, const std::string& line, double now) {
  const Member& lost = first();
  first_ = other;
  learn_address(line);
  plan_.say(fmt::format("the process on {} leads the run from here on", first().slot.host));
  for (Member& member : members_) member.stops_at.reset();
  if (stopping_ != 0) first().stops_at = now;
  if (lost.ended) one_is_missing(lost, now);
}

void Supervisor::first_ended(double now) {
  const LaunchEnding& ending = *first().ended;
  if ((plan_.elastic || plan_.workers) && step_ > 0 && died_at_ && now - *died_at_ > kNoticesLoss)
    someone_died_ = false;  // the run has gone on since
  if (is_dead(ending)) {
    someone_died_ = true;
    died_at_ = now;
    plan_.say(fmt::format("the first process, on {}, {}", first().slot.host, text_of(ending)));
  }
  // Another one may take over; workers would wait for the first until it is there again.
  const bool is_followed = is_dead(ending) && plan_.elastic && step_ > 0 && stopping_ == 0;
  for (Member& member : members_) {
    const double patience = is_followed                                                ? kNoticesLoss
                            : member.server >= 0 || (plan_.workers && is_dead(ending)) ? 0
                                                                                       : kGrace;
    if (!member.ended) member.stops_at = std::min(member.stops_at.value_or(now + patience), now + patience);
  }
}

void Supervisor::other_ended(const Member& other, double now) {
  const LaunchEnding& ending = *other.ended;
  const bool died = is_dead(ending) && !other.killed;
  someone_died_ |= died;
  if (died) died_at_ = now;
  if (stopping_ != 0 || (!died && (ending.code == 0 || first_is_gone()))) return;
  plan_.say(fmt::format("a process on {} {}", other.slot.host, text_of(ending)));
  if (plan_.workers) return worker_ended(other, now);
  if (plan_.elastic && step_ > 0) {
    // One whom the others have given up has failed. After a mistake, another one would make it again.
    if (died || ending.code == kFailed) one_is_missing(other, now);
    return;
  }
  if (first().ended) return;
  if (ending.code < kSignals) others_code_ = std::max(others_code_, ending.code);
  // Before the first step, the first one may wait for it for ever; later it notices.
  const double patience = step_ == 0 ? kGrace : kNoticesLoss;
  first().stops_at = std::min(first().stops_at.value_or(now + patience), now + patience);
}

void Supervisor::worker_ended(const Member& worker, double now) {
  const bool wrong = is_wrong(*worker.ended);
  if (wrong && step_ == 0) {
    others_code_ = std::max(others_code_, worker.ended->code);
    return end_run(now);
  }
  if (!wrong) one_is_missing(worker, now);
  require_a_worker(now);
}

/// A run that has no worker and gets none ends; it would wait for ever.
void Supervisor::require_a_worker(double now) {
  const bool works = std::ranges::any_of(members_, [&](const Member& member) {
    return !member.ended && member.server < 0 && &member != &first();
  });
  if (works || missing_ > 0 || first().ended) return;
  if (!someone_died_) others_code_ = std::max(others_code_, kFailed);
  end_run(now);
}

void Supervisor::one_is_missing(const Member& lost, double now) {
  quick_deaths_ = now - lost.started < kQuickDeath ? quick_deaths_ + 1 : 0;
  ++missing_;
  next_other_ = now + kPauseOfAnother * (1 + quick_deaths_);
}

void Supervisor::replace_servers(double now) {
  if (stopping_ != 0 || first_is_gone()) return;
  for (size_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    if (!server.starts_at || now < *server.starts_at) continue;
    server.starts_at.reset();
    plan_.say(fmt::format("parameter server {} is started again, on {}", s, server.slot.host));
    const auto number = static_cast<int>(s);
    start(server.slot, plan_.server(number, Address::parse(server.address).port), now, number);
  }
}

void Supervisor::replace_lost(double now) {
  if (missing_ == 0 || stopping_ != 0 || now < next_other_ || first_is_gone()) return;
  const int missing = std::exchange(missing_, 0);
  if (quick_deaths_ >= kMostDeaths) {
    plan_.say(fmt::format("{} processes in a row were lost within {:.0f} s: none takes their place",
                          quick_deaths_, kQuickDeath));
    if (plan_.workers) require_a_worker(now);
    return;
  }
  std::vector<LaunchSlot> free = usable_slots(1);
  for (const Member& member : members_) {
    if (member.ended || member.server >= 0 || (plan_.workers && &member == &first())) continue;
    const auto taken = std::ranges::find(free, member.slot.host, &LaunchSlot::host);
    if (taken != free.end()) free.erase(taken);
  }
  for (int other = 0; other < missing; ++other) {
    if (free.empty()) {
      plan_.say("the run goes on without it: there is no other place");
      if (plan_.workers) require_a_worker(now);
      return;
    }
    plan_.say(fmt::format("another process takes its place, on {}", free.front().host));
    start(free.front(), plan_.other(address_), now);
    free.erase(free.begin());
  }
}

void Supervisor::end_those_due(double now) {
  for (Member& member : members_) {
    if (member.ended) continue;
    if (member.stops_at && now >= *member.stops_at) {
      member.stops_at.reset();
      member.killed_at = now + kSavesWithin;
      engine_.stop(member.process, false);
    }
    if (member.killed_at && now >= *member.killed_at) {
      member.killed_at.reset();
      member.killed = true;
      plan_.say(fmt::format("the process on {} has not ended for {:.0f} s: it is killed", member.slot.host,
                            kSavesWithin));
      engine_.stop(member.process, true);
    }
  }
}

std::optional<int> Supervisor::decide(double now) {
  const LaunchEnding ending = has_first() ? *first().ended : LaunchEnding{.code = kFailed};
  if (ending.code == 0 && !ending.host_lost) return 0;
  if (is_wrong(ending)) return ending.code;
  if (stopping_ != 0)
    return has_first() && (ending.code == kFailed || ending.code == kStoppedUnstored) ? ending.code
                                                                                      : kSignals + stopping_;
  if (others_code_ > kFailed) return others_code_;
  if (someone_died_) {
    deaths_ = step_ > furthest_ ? 1 : deaths_ + 1;
    furthest_ = std::max(furthest_, step_);
    if (deaths_ >= kMostDeaths) {
      plan_.say(fmt::format(
          "{} times in a row a process was lost {}: the run ends", deaths_,
          step_ == 0 ? "before the first step"
                     : fmt::format("and the run went back to step {}, its last checkpoint; more of them "
                                   "(output.checkpoint_minutes) let it get further",
                                   step_ - 1)));
      return kFailed;
    }
    again(now, std::min<double>(1 << (deaths_ - 1), kLongestPause), "");
    return std::nullopt;
  }
  if (is_stopped(ending.code) && others_code_ == 0) return ending.code;
  if (failures_ >= plan_.restarts) return kFailed;
  ++failures_;
  again(now, 1, fmt::format(" (restart {} of {})", failures_, plan_.restarts));
  return std::nullopt;
}

void Supervisor::again(double now, double pause, const std::string& which) {
  plan_.say(fmt::format("the run is started again from its checkpoint{}", which));
  next_start_ = now + pause;
}

}  // namespace telar
