#include "telar/train/kept_state.h"

#include <span>
#include <utility>

namespace telar {

std::vector<float> share_tensor(const StateName& name, const std::function<std::vector<float>()>& of_rank_0,
                                Session& session, Processes& processes) {
  std::vector<float> values;
  if (processes.rank() == 0)
    values = of_rank_0();
  else
    values.resize(static_cast<size_t>(session.state_shape(name).elements()));
  processes.broadcast(std::as_writable_bytes(std::span(values)));
  session.write_state(name, values);
  return values;
}

TrainingState shared_state(const TrainingState& of_rank_0, Processes& processes) {
  std::string text = to_json(of_rank_0);
  processes.broadcast(text);
  return training_state_from_json(text, "the training state of rank 0");
}

void KeptState::keep(const Session& session, const TrainingState& training, int rank) {
  std::map<std::string, std::vector<float>> tensors;
  for (const StateName& name : session.state_names()) {
    std::vector<float> values = session.read_state(name);
    if (stores(session, rank)) tensors[name.text()] = std::move(values);
  }
  tensors_ = std::move(tensors);
  whole_ = stores(session, rank);
  training_ = training;
}

/// Workers that train alone are ahead of the training state within an epoch.
bool KeptState::due(const Session& session, const TrainingState& training, int64_t steps) const {
  if (!session.state_is_divided() || training.step == training_.step) return false;
  if (trains_alone(session.program()) && training.step_in_epoch > 0) return false;
  return training.step - training_.step >= steps;
}

const TrainingState& KeptState::give(Session& session, double seconds, Processes& processes) {
  const int rank = processes.rank();
  const bool keeps = session.state_is_divided() && rank < 2;
  std::map<std::string, std::vector<float>> given;
  for (const StateName& name : session.state_names()) {
    std::vector<float> values = share_tensor(
        name, [&] { return tensors_.at(name.text()); }, session, processes);
    if (keeps && rank > 0) given[name.text()] = std::move(values);
  }
  training_.seconds = seconds;
  training_ = shared_state(training_, processes);
  if (!keeps || rank > 0) tensors_ = std::move(given);
  whole_ = keeps;
  return training_;
}

}  // namespace telar
