#include "telar/train/training_state.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "telar/comm/store/store_ledger.h"
#include "telar/core/error.h"
#include "telar/data/permutation.h"
#include "telar/io/json_fields.h"
#include "telar/train/stream_evaluation_file.h"

namespace telar {

namespace {

constexpr int64_t kMostEpochs = 1'000'000'000;  // the limit of training.epochs
constexpr size_t kMostPosition = 1 << 22;       // of a topic with 60,000 partitions
constexpr int64_t kMostVersion = 1'000'000;
constexpr int64_t kMostSteps = (int64_t{1} << 62U) - 1;  // sums of two do not overflow

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string bytes_from(const JsonFields& fields, const std::string& name) {
  const nlohmann::json& field = fields.value(name);
  const std::string text = field.is_string() ? field.get<std::string>() : "?";
  if (text.size() % 2 != 0 || text.size() > kMostPosition ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw fields.wrong(name, fmt::format("at most {} hexadecimal digits, two for each byte", kMostPosition));
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

Plateau plateau_from_json(const JsonFields& fields) {
  Plateau plateau;
  plateau.factor = fields.number("factor", 0);
  if (!fields.is_null("best")) plateau.best = fields.number("best", -std::numeric_limits<double>::infinity());
  plateau.epochs = fields.integer("epochs", 0, kMostEpochs);
  return plateau;
}

nlohmann::ordered_json json_of(const RunLosses& losses) {
  nlohmann::ordered_json json;
  json["restarts"] = json["lost_updates"] = json["unknown"] = nlohmann::ordered_json::array();
  for (const StoreLosses& server : losses.servers) {
    json["restarts"].push_back(server.restarts);
    json["lost_updates"].push_back(server.updates);
    json["unknown"].push_back(server.unknown);
  }
  json["updates"] = losses.updates;
  json["lost_workers"] = losses.workers.members;
  json["repeated_parts"] = losses.workers.parts;
  return json;
}

RunLosses losses_from_json(const JsonFields& fields) {
  RunLosses losses;
  const std::vector<int64_t> restarts = fields.integers("restarts", 0, kMostUpdates);
  const std::vector<int64_t> updates = fields.integers("lost_updates", 0, kMostUpdates);
  const std::vector<int64_t> unknown = fields.integers("unknown", 0, kMostUpdates);
  for (const auto& [name, numbers] : {std::pair("lost_updates", &updates), std::pair("unknown", &unknown)})
    if (numbers->size() != restarts.size())
      throw fields.wrong(name, fmt::format("a list of {} numbers, as restarts is", restarts.size()));
  for (size_t s = 0; s < restarts.size(); ++s)
    losses.servers.push_back({restarts[s], updates[s], unknown[s]});
  losses.updates = fields.integer("updates", 0, kMostUpdates);
  losses.workers.members = fields.integer("lost_workers", 0, kMostUpdates);
  losses.workers.parts = fields.integer("repeated_parts", 0, kMostUpdates);
  return losses;
}

/// What must hold between the fields, whatever the job.
void check_agreement(const TrainingState& state, const JsonFields& fields) {
  if (state.best_step > state.step)
    throw fields.wrong("best_step", fmt::format("at most the {} steps in total", state.step));
  if (state.epochs_since_best > state.epoch)
    throw fields.wrong("epochs_since_best", fmt::format("at most the {} complete epochs", state.epoch));
  if ((state.epoch_samples == 0) != state.epoch_sums.empty()) {
    throw fields.wrong("epoch_samples", state.epoch_sums.empty()
                                            ? "0, because epoch_sums is empty"
                                            : "at least 1, because epoch_sums has values");
  }
}

}  // namespace

std::string to_json(const TrainingState& state) {
  nlohmann::ordered_json json;
  json["epoch"] = state.epoch;
  json["step_in_epoch"] = state.step_in_epoch;
  json["order_version"] = state.order_version;
  json["position"] = hexadecimal(state.position.bytes);
  json["step"] = state.step;
  json["samples"] = state.samples;
  json["left_out"] = state.left_out;
  if (state.updates) json["updates"] = *state.updates;
  if (state.losses) json["losses"] = json_of(*state.losses);
  json["seconds"] = state.seconds;
  json["epoch_samples"] = state.epoch_samples;
  json["epoch_sums"] = state.epoch_sums;
  json["best"] = state.best ? nlohmann::ordered_json(*state.best) : nlohmann::ordered_json();
  json["best_step"] = state.best_step;
  json["epochs_since_best"] = state.epochs_since_best;
  json["stopped_early"] = state.stopped_early;
  if (const auto& plateau = state.plateau)
    json["plateau"] = {
        {"factor", plateau->factor},
        {"best", plateau->best ? nlohmann::ordered_json(*plateau->best) : nlohmann::ordered_json()},
        {"epochs", plateau->epochs}};
  if (state.evaluation) json["evaluation"] = to_json(*state.evaluation);
  return json.dump(2);
}

TrainingState training_state_from_json(const std::string& text, const std::string& source) {
  const JsonFields fields(text, source);
  TrainingState state;
  state.epoch = fields.integer("epoch", 0, kMostEpochs);
  state.step_in_epoch = fields.integer("step_in_epoch", 0, kMostSamples);
  // A state of before this field existed is of version 1.
  state.order_version = fields.has("order_version") ? fields.integer("order_version", 1, kMostVersion) : 1;
  if (fields.has("position")) state.position.bytes = bytes_from(fields, "position");
  state.step = fields.integer("step", 0, kMostSteps);
  state.samples = fields.integer("samples", 0, kMostSteps);
  if (fields.has("left_out")) state.left_out = fields.integer("left_out", 0, kMostSteps);
  if (fields.has("updates")) state.updates = fields.integer("updates", 0, kMostUpdates);
  if (fields.has("losses"))
    state.losses = losses_from_json(JsonFields::of(fields.value("losses"), source + ", losses"));
  state.seconds = fields.number("seconds", 0);
  state.epoch_samples = fields.integer("epoch_samples", 0, kMostSteps);
  state.epoch_sums = fields.numbers("epoch_sums", true);  // a metric of a model file may be NaN
  if (!fields.is_null("best")) state.best = fields.number("best", -std::numeric_limits<double>::infinity());
  state.best_step = fields.integer("best_step", 0, kMostSteps);
  state.epochs_since_best = fields.integer("epochs_since_best", 0, kMostEpochs);
  state.stopped_early = fields.flag("stopped_early");
  if (fields.has("plateau"))
    state.plateau = plateau_from_json(JsonFields::of(fields.value("plateau"), source + ", plateau"));
  if (fields.has("evaluation"))
    state.evaluation =
        stream_evaluation_from_json(JsonFields::of(fields.value("evaluation"), source + ", evaluation"));
  check_agreement(state, fields);
  return state;
}

void check_position(const TrainingState& state, const EpochSize& size, const std::string& source) {
  if (state.step_in_epoch > size.steps) {
    throw user_error("{}: step_in_epoch is {}; an epoch of this job has {} steps, so it must be from 0 to {}",
                     source, state.step_in_epoch, size.steps, size.steps);
  }
  if (state.step_in_epoch == 0 && !state.epoch_sums.empty()) {
    throw user_error("{}: epoch_sums has {} values; before the first step of an epoch it must be empty",
                     source, state.epoch_sums.size());
  }
  const size_t evaluated = state.evaluation ? state.evaluation->means.fading_sums.size() : 0;
  if (evaluated > 0 && evaluated != size.metrics) {
    throw user_error("{}: evaluation has sums of {} metrics; the job has {}", source, evaluated,
                     size.metrics);
  }
  if (state.step_in_epoch > 0 && state.epoch_sums.size() != size.metrics) {
    throw user_error("{}: epoch_sums has {} values; it must have one for each of the {} metrics of the job",
                     source, state.epoch_sums.size(), size.metrics);
  }
}

}  // namespace telar
