#include "telar/comm/recovery/member.h"

#include <algorithm>

#include "telar/core/error.h"

namespace telar::recovery {

void Member::connected() { send(Hello{generation_.number, ready_, unreachable_}); }

void Member::passed(StepOutcome outcome) {
  passed_ = std::move(outcome);
  stays(passed_.step - 1);
}

void Member::met() { stays(applied_); }

void Member::stays(int64_t step) {
  if (step <= stays_) return;
  stays_ = step;
  if (reports() && !outcomes_.empty()) send(Line{generation_.number, outcomes_.back()});
}

void Member::applied(int64_t step) {
  applied_ = step;
  outcomes_.push_back(passed_);
}

void Member::unreachable(MemberId whom, int64_t number) {
  if (number == generation_.number) unreachable_.push_back(whom);
  send(Accuse{number, whom});
}

void Member::receive(const Order& order) {
  std::visit([this](const auto& one) { take(one); }, order);
}

void Member::take(const Suspend& suspend) {
  if (suspend.attempt == attempt_) {  // said again in a new connection
    if (stopped_) say_stopped();
    return;
  }
  attempt_ = suspend.attempt;
  stopped_ = false;
  prepare_.reset();
  ready_ = 0;
  actions_.emplace_back(Stop{suspend.after});
}

void Member::stopped() {
  stopped_ = true;
  say_stopped();
}

void Member::say_stopped() {
  send(Stopped{attempt_, generation_.number, applied_, {outcomes_.begin(), outcomes_.end()}});
}

void Member::take(const Prepare& prepare) {
  const int64_t base = prepare.next.base;
  if (std::ranges::find(prepare.sources, id_) != prepare.sources.end() && applied_ != base) {
    if (applied_ != base - 1 || summed_ != base || prepare.outcome.step != base)
      throw run_error(
          "a member is to apply step {} after a loss, but it has applied step {} and holds the sums of step {}",
          base, applied_, summed_);
    actions_.emplace_back(Apply{prepare.outcome});
    passed_ = prepare.outcome;
    applied(base);
  }
  prepare_ = prepare;
  actions_.emplace_back(Move{prepare});
}

void Member::prepared() {
  if (!prepare_) return;  // it was told to stop meanwhile
  ready_ = prepare_->next.number;
  send(Ready{ready_});
}

void Member::take(const Commit& commit) {
  if (commit.number == generation_.number) return;
  if (ready_ != commit.number)
    throw run_error("the coordinator has committed generation {}, for which this member is not ready",
                    commit.number);
  const Generation& next = prepare_->next;
  generation_ = next.has(id_) ? next : Generation{};
  applied_ = stays_ = next.base;
  summed_ = ready_ = 0;
  unreachable_.clear();
  outcomes_.clear();
  prepare_.reset();
  actions_.emplace_back(Adopt{generation_});
}

void Member::take(const Logged& logged) {
  while (!outcomes_.empty() && outcomes_.front().step <= logged.step) outcomes_.pop_front();
  if (!reports()) return;
  for (const StepOutcome& outcome : outcomes_)
    if (outcome.step <= stays_) send(Line{generation_.number, outcome});
}

void Member::take(const Dismiss& /*dismiss*/) { actions_.emplace_back(End{}); }

}  // namespace telar::recovery
