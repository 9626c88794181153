#include "telar/train/cluster_description.h"

#include <nlohmann/json.hpp>

#include "telar/core/error.h"
#include "telar/train/job_reader.h"
#include "telar/train/sample_file.h"

namespace telar {

std::string to_json(const ClusterDescription& description) {
  const std::string& reached = description.reached.bytes;
  return nlohmann::json{{"job", job_text(description.job)},
                        {"samples", to_json(description.spec, description.job.data.rules)},
                        {"data", to_json(description.data)},
                        {"reached", std::vector<uint8_t>(reached.begin(), reached.end())}}
      .dump();
}

ClusterDescription cluster_description_from_json(const std::string& text, const std::string& source) {
  try {
    const auto json = nlohmann::json::parse(text);
    const auto samples = json.at("samples").get<std::string>();
    ClusterDescription description{
        .job = parse_job(json.at("job").get<std::string>(), "the job of " + source),
        .spec = sample_spec_from_json(samples, "the samples of " + source),
        .data = data_decision_from_json(json.at("data").get<std::string>(), source)};
    const auto reached = json.at("reached").get<std::vector<uint8_t>>();
    description.reached.bytes.assign(reached.begin(), reached.end());
    description.job.data.rules = sample_rules_from_json(samples, "the samples of " + source);
    return description;
  } catch (const nlohmann::json::exception& mistake) {
    throw user_error("{} sent a job description that cannot be parsed: {}", source, mistake.what());
  }
}

}  // namespace telar
