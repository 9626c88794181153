#include <nlohmann/json.hpp>

#include "telar/train/figures_json.h"
#include "telar/train/run.h"

namespace telar {

namespace {

/// Without values, those of numbers are null.
void add_values(nlohmann::ordered_json& json, const std::string& part, const RunSummary& summary,
                const std::vector<double>& values, Lists lists = Lists::included) {
  if (!summary.figures) return;
  if (!values.empty()) return add_figures(json, part + "_", *summary.figures, values, lists);
  for (const std::string& name : summary.figures->numbers()) json[part + "_" + name] = nullptr;
}

/// Rates of no steps do not exist.
nlohmann::ordered_json or_null(double rate) {
  return rate == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(rate);
}

nlohmann::ordered_json json_of(const RunLosses& losses) {
  nlohmann::ordered_json restarts = nlohmann::ordered_json::array();
  nlohmann::ordered_json updates = nlohmann::ordered_json::array();
  for (const StoreLosses& server : losses.servers) {
    restarts.push_back(server.restarts);
    updates.push_back(server.unknown > 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(server.updates));
  }
  return {{"server_restarts", restarts},
          {"updates", losses.updates},
          {"lost_updates", updates},
          {"lost_workers", losses.workers.members},
          {"repeated_parts", losses.workers.parts}};
}

void add_evaluation(nlohmann::ordered_json& json, const RunSummary& summary,
                    const StreamEvaluation& evaluation) {
  const bool none = evaluation.means.empty() || !summary.figures;
  const auto values_of = [&](const std::vector<double>& means) { return summary.figures->of(means, 1); };
  add_values(json, "window", summary, none ? std::vector<double>{} : values_of(evaluation.means.windowed()),
             Lists::left_out);
  add_values(json, "fading", summary, none ? std::vector<double>{} : values_of(evaluation.means.fading()),
             Lists::left_out);
  json["drift_count"] = evaluation.drift_count;
  json["drifts"] = nlohmann::ordered_json::array();
  for (const DriftEvent& drift : evaluation.drifts)
    json["drifts"].push_back(
        {{"step", drift.step}, {"samples", drift.samples}, {"value", drift.value}, {"window", drift.window}});
}

}  // namespace

std::string warning_of(const RunSummary& summary) {
  std::string warning = summary.losses ? losses_warning(*summary.losses) : "";
  for (const std::string& more : {summary.not_stored, summary.after_checkpoint})
    warning += (warning.empty() || more.empty() ? "" : "; ") + more;
  return warning;
}

std::string to_json(const RunSummary& summary) {
  nlohmann::ordered_json json;
  json["outcome"] = summary.failed                           ? "failed"
                    : summary.outcome == FitOutcome::stopped ? "stopped"
                    : summary.stopped_early                  ? "stopped early"
                                                             : "finished";
  json["why"] = summary.why;
  json["warning"] = warning_of(summary);
  add_values(json, "test", summary, summary.test);
  add_values(json, "train", summary, summary.train);
  add_values(json, "validation", summary, summary.validation);
  json["images_per_second"] = or_null(summary.images_per_second);
  json["step_ms_median"] = or_null(summary.step_ms_median);
  if (summary.communication) {
    json["communication"] = {{"within_gradient", summary.communication->within_gradient},
                             {"exposed", summary.communication->exposed},
                             {"waiting", summary.communication->waiting}};
  }
  if (summary.phases) json["phases"] = nlohmann::ordered_json::parse(to_json(*summary.phases));
  if (!summary.trace.empty()) json["trace"] = summary.trace;
  json["joules"] = summary.joules ? nlohmann::ordered_json(*summary.joules) : nlohmann::ordered_json();
  json["energy_source"] = summary.energy_source.empty() ? nlohmann::ordered_json()
                                                        : nlohmann::ordered_json(summary.energy_source);
  json["wall_seconds"] = summary.wall_seconds;
  json["since_step"] = summary.since_step;
  json["seconds"] = summary.seconds;
  json["epochs"] = summary.epochs;
  json["steps"] = summary.steps;
  json["strategy"] = summary.strategy;
  json["replicas"] = summary.replicas;
  json["devices"] = summary.devices;
  json["nccl"] = summary.nccl;
  if (summary.mixed_speed) {
    json["step_ms_together"] = 1e3 * summary.mixed_speed->together;
    json["step_ms_gpus_alone"] = 1e3 * summary.mixed_speed->gpus_alone;
  }
  if (summary.bubble) {
    json["bubble_measured"] = summary.bubble->measured;
    json["bubble_formula"] = summary.bubble->formula;
  }
  json["peak_memory_bytes"] = summary.peak_memory_bytes;
  json["parameter_bytes"] = summary.parameter_bytes;
  json["gradient_bytes"] = summary.gradient_bytes;
  json["optimizer_bytes"] = summary.optimizer_bytes;
  json["activation_bytes"] = summary.activation_bytes;
  json["seed"] = summary.seed;
  json["left_out_samples"] = summary.left_out_samples;
  json["staleness"] = summary.staleness;
  if (summary.losses) json["losses"] = json_of(*summary.losses);
  if (summary.latency.count() > 0) {
    json["latency_ms_median"] = 1e3 * summary.latency.quantile(0.5);
    json["latency_ms_99"] = 1e3 * summary.latency.quantile(0.99);
  }
  if (summary.evaluation) add_evaluation(json, summary, *summary.evaluation);
  json["folder"] = summary.folder;
  json["checkpoint"] = summary.checkpoint;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace telar
