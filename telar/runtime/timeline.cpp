#include "telar/runtime/timeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace telar {

namespace {

double seconds(Timeline::Clock::duration time) { return std::chrono::duration<double>(time).count(); }
double microseconds(Timeline::Clock::duration time) { return 1e6 * seconds(time); }

std::string text_of(const OperationName& operation) {
  return operation.scope.empty() ? operation.op : operation.scope + " " + operation.op;
}

}  // namespace

Timeline::Timeline(int64_t steps, size_t intervals) : most_steps_(steps) {
  constexpr size_t kSums = 1024;
  intervals_.reserve(intervals);
  communication_.reserve(intervals / 4);
  sums_.reserve(kSums);
}

void Timeline::begin(Time start) {
  ++steps_;
  in_step_ = true;
  complete_ = keeping();
  step_start_ = last_ = last_sum_ = start;
  times_ = {};
}

void Timeline::add(Time until, StepPhase phase, const OperationName* operation, const char* what) {
  if (!in_step_) return;
  times_[phase] += seconds(until - last_);
  if (keeping()) {
    if (intervals_.size() < intervals_.capacity()) {
      intervals_.push_back({last_, until, operation, what, phase});
    } else {
      complete_ = false;
    }
  }
  last_ = until;
}

PhaseTimes Timeline::end(Time until) {
  did(StepPhase::wait, "waits for the other replicas", until);
  in_step_ = false;
  times_.step = seconds(until - step_start_);
  if (complete_) ++kept_steps_;
  return times_;
}

void Timeline::keep(const Communication& communication) {
  if (in_step_ && keeping() && communication_.size() < communication_.capacity())
    communication_.push_back(communication);
}

void Timeline::sum_began(Time start) {
  if (sums_.size() < sums_.capacity()) sums_.push_back(start);
}

void Timeline::sums_complete(size_t count, Time now) {
  for (; sums_complete_ < std::min(count, sums_.size()); ++sums_complete_) {
    const Time start = std::max(sums_[sums_complete_], last_sum_);
    keep({start, now, nullptr, sums_complete_});
    last_sum_ = now;
  }
}

void Timeline::sums_finished() {
  sums_.clear();
  sums_complete_ = 0;
}

void Timeline::called_group(const char* what, Time start, Time end) { keep({start, end, what, 0}); }

std::vector<OperationTime> Timeline::operations() const {
  std::vector<OperationTime> times;
  for (const Interval& interval : intervals_) {
    if (interval.operation == nullptr) continue;
    times.push_back(
        {interval.operation->scope, interval.operation->op, seconds(interval.end - interval.start)});
  }
  return times;
}

std::vector<TraceRow> Timeline::rows(const std::string& name, Time zero) const {
  std::vector<TraceRow> rows(1);
  rows[0].name = name;
  for (const Interval& interval : intervals_) {
    rows[0].events.push_back({interval.operation != nullptr ? text_of(*interval.operation) : interval.what,
                              name_of(interval.phase), microseconds(interval.start - zero),
                              microseconds(interval.end - interval.start)});
  }
  if (communication_.empty()) return rows;
  rows.push_back({name + ": communication", {}});
  for (const Communication& communication : communication_) {
    rows[1].events.push_back({communication.what != nullptr
                                  ? std::string(communication.what)
                                  : fmt::format("sum of bucket {}", communication.bucket),
                              "communication", microseconds(communication.start - zero),
                              microseconds(communication.end - communication.start)});
  }
  return rows;
}

}  // namespace telar
