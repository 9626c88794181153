#include "telar/train/cluster_description.h"

#include <nlohmann/json.hpp>

#include "telar/core/error.h"
#include "telar/train/job_reader.h"
#include "telar/train/sample_file.h"

namespace telar {

std::string to_json(const ClusterDescription& description) {
  return nlohmann::json{{"job", job_text(description.job)},
                        {"samples", to_json(description.spec)},
                        {"data", to_json(description.data)}}
      .dump();
}

ClusterDescription cluster_description_from_json(const std::string& text, const std::string& source) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {.job = parse_job(json.at("job").get<std::string>(), "the job of " + source),
            .spec = sample_spec_from_json(json.at("samples").get<std::string>(), "the samples of " + source),
            .data = data_decision_from_json(json.at("data").get<std::string>(), source)};
  } catch (const nlohmann::json::exception& mistake) {
    throw user_error("{} sent a job description that cannot be parsed: {}", source, mistake.what());
  }
}

}  // namespace telar
