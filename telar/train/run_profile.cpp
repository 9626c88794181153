#include "telar/train/run_profile.h"

#include <fmt/format.h>

#include <vector>

#include "telar/observe/process.h"
#include "telar/observe/trace.h"

namespace telar {

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> gathered(Processes* processes, const std::string& text) {
  return processes == nullptr ? std::vector<std::string>{text} : processes->gather(text);
}

/// The moment from which a trace counts time. On one host all processes use rank 0's clock. Clocks of several
/// hosts are unrelated, so each uses the moment when all processes have arrived.
Clock::time_point common_zero(Processes* processes) {
  if (processes == nullptr) return Clock::now();
  processes->any(false);
  const Clock::time_point now = Clock::now();
  const bool one_host = !processes->any(processes->on_this_host() < processes->size());
  int64_t ticks = now.time_since_epoch().count();
  processes->broadcast(std::as_writable_bytes(std::span(&ticks, 1)));
  return one_host ? Clock::time_point(Clock::duration(ticks)) : now;
}

}  // namespace

RunProfile::RunProfile(const ProfileOptions& options, Session& session, Processes* processes)
    : options_(options), session_(session), processes_(processes), zero_(common_zero(processes)) {
  session_.record_phases(options_.steps);
}

PhaseSummary RunProfile::phases(std::span<const PhaseTimes> steps, std::span<const CommunicationTime> own,
                                std::span<const CommunicationTime> compared) const {
  std::vector<PhaseTimes> separated(steps.begin(), steps.end());
  for (size_t s = 0; s < separated.size(); ++s) {
    const double waiting = own[s].exposed - compared[s].exposed;  // for slower processes
    separated[s][StepPhase::exchange] -= waiting;
    separated[s][StepPhase::wait] += waiting;
  }
  std::vector<PhaseSummary> summaries;
  for (const std::string& text : gathered(processes_, to_json(summary_of(separated))))
    summaries.push_back(phase_summary_from_json(text));
  return mean_of(summaries);
}

std::string RunProfile::trace() const {
  const int rank = processes_ == nullptr ? 0 : processes_->rank();
  const std::string name =
      processes_ == nullptr ? "telar on " + host_name() : fmt::format("rank {} on {}", rank, host_name());
  const std::vector<TraceRow> rows = session_.trace(zero_);
  return trace_file_text(gathered(processes_, trace_events_text(name, rank, rows)),
                         {{"steps", fmt::format("the first {} of this run", options_.steps)},
                          {"strategy", session_.strategy()}});
}

}  // namespace telar
