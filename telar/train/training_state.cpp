#include "telar/train/training_state.h"

#include <nlohmann/json.hpp>

#include "telar/core/error.h"

namespace telar {

std::string to_json(const TrainingState& state) {
  nlohmann::ordered_json json;
  json["epoch"] = state.epoch;
  json["step_in_epoch"] = state.step_in_epoch;
  json["step"] = state.step;
  json["samples"] = state.samples;
  json["seconds"] = state.seconds;
  json["epoch_samples"] = state.epoch_samples;
  json["epoch_sums"] = state.epoch_sums;
  json["best"] = state.best ? nlohmann::ordered_json(*state.best) : nlohmann::ordered_json();
  json["best_step"] = state.best_step;
  json["epochs_since_best"] = state.epochs_since_best;
  json["stopped_early"] = state.stopped_early;
  return json.dump(2);
}

TrainingState training_state_from_json(const std::string& text, const std::string& source) {
  try {
    const auto json = nlohmann::json::parse(text);
    TrainingState state;
    json.at("epoch").get_to(state.epoch);
    json.at("step_in_epoch").get_to(state.step_in_epoch);
    json.at("step").get_to(state.step);
    json.at("samples").get_to(state.samples);
    json.at("seconds").get_to(state.seconds);
    json.at("epoch_samples").get_to(state.epoch_samples);
    json.at("epoch_sums").get_to(state.epoch_sums);
    if (!json.at("best").is_null()) state.best = json.at("best").get<double>();
    json.at("best_step").get_to(state.best_step);
    json.at("epochs_since_best").get_to(state.epochs_since_best);
    json.at("stopped_early").get_to(state.stopped_early);
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw user_error("{} is not a training state: {}", source, error.what());
  }
}

}  // namespace telar
