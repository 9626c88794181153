#include "telar/train/job_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "telar/train/job_model.h"

namespace telar {

namespace {

const std::string kNotSet = "not set";

/// Momentum needs a state of its own, so it can change but neither appear nor vanish.
void refuse_other_states(std::vector<JobChange>& changes) {
  for (JobChange& change : changes) {
    const bool momentum = change.key == "optimizer.momentum" || change.key == "strategy.outer_momentum";
    if (!momentum || (change.before != "0" && change.now != "0")) continue;
    change.rule = OnResume::refused;
    change.because = change.before == "0" ? "the checkpoint contains no state of a momentum"
                                          : "the checkpoint contains the state of the momentum";
  }
}

/// A stream without an end goes on with the partitions that its topic has got: the offsets of the others
/// stay.
void accept_new_partitions(std::vector<JobChange>& changes) {
  const std::string_view end = "]}";
  for (JobChange& change : changes) {
    if (change.key != "data.start" || !change.before.ends_with(end)) continue;
    const std::string grown = change.before.substr(0, change.before.size() - end.size()) + ",";
    if (change.now.starts_with(grown)) change.rule = OnResume::recorded;
  }
}

/// Runs from before 2026-11-27 have no names of columns, and the label may be that of a number. That the
/// table is the same is checked apart.
void accept_names(std::vector<JobChange>& changes) {
  const auto columns = std::ranges::find(changes, "data.columns", &JobChange::key);
  if (columns == changes.end() || columns->before != "[]") return;
  for (JobChange& change : changes)
    if (change.key == "data.columns" || change.key == "data.label") change.rule = OnResume::free;
}

}  // namespace

std::string JobChange::str() const {
  return key == "model" ? "the models differ" : fmt::format("{}: {} → {}", key, before, now);
}

std::vector<JobChange> job_changes(const Job& before, const Job& now) {
  std::vector<JobChange> changes;
  if (!same_model(before.model, now.model)) {
    changes.push_back({"model", model_job_text(before.model), model_job_text(now.model), OnResume::refused,
                       "the weights in the checkpoint belong to that model"});
  }
  if (before.model.weights != now.model.weights)
    changes.push_back({"model.weights", before.model.weights, now.model.weights, OnResume::refused,
                       "a run takes them at its beginning only"});
  for (const JobKey& key : job_keys()) {
    if (!applies(key, now)) continue;
    const std::string a = applies(key, before) ? key.write(before) : kNotSet;
    const std::string b = key.write(now);
    if (a != b) changes.push_back({key.path, a, b, key.on_resume, key.because});
  }
  refuse_other_states(changes);
  accept_new_partitions(changes);
  accept_names(changes);
  return changes;
}

std::vector<JobChange> changes_of(const std::vector<JobChange>& changes, OnResume rule) {
  std::vector<JobChange> found;
  std::copy_if(changes.begin(), changes.end(), std::back_inserter(found),
               [&](const JobChange& change) { return change.rule == rule; });
  return found;
}

}  // namespace telar
