#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telar/data/streams/kafka.h"
#include "telar/train/predict_stream.h"
#include "telar/train/trained.h"

namespace telar {

struct PredictTopicRequest {
  std::string from;   ///< the topic whose messages are predicted
  std::string to;     ///< for the results, as JSON (prediction_json()); empty: none
  std::string group;  ///< whose committed offsets are the position; empty: named after the run and the topic
  bool latest = false;   ///< where a new group begins: behind the last message, not at the first
  bool end_now = false;  ///< at the messages that the topic has now
  int64_t messages = 0;  ///< after which it ends; 0: it does not
  /// The run's data keys (--set), or how to reach the topic if the run was trained on something else.
  std::vector<std::string> overrides;
  /// Score although messages are read otherwise than those of the training were (another schema).
  bool accept_changed_data = false;
  std::function<void(const std::string&)> warn;  ///< may be empty
  std::function<bool()> stop_requested;
};

/// A topic whose messages a model will predict, and where.
struct PredictTopic {
  std::unique_ptr<MessageLog> log;
  std::unique_ptr<PredictionWriter> writer;  ///< null if `to` is empty
  PredictStreamOptions options;
  std::string group;
};

/// Throws Error (user) if messages are not read by the schema or descriptor of the training, which the
/// checkpoint has recorded. Data of a job without either are not compared.
void require_format_of_training(const std::filesystem::path& checkpoint, const DataJob& data);

/// Throws Error (user) if the run's job does not say how to reach and to read a topic, or says it wrongly,
/// and like open_kafka_log().
PredictTopic open_predict_topic(const Trained& trained, const PredictTopicRequest& request);

/// {"partition": 0, "offset": 17, "key": "a", "step": 1200, "class": 3, "class_name": "boot", "probabilities":
/// […]}, or "values" of a model without classes. A message without a key has none; one whose classes have no
/// names, no name. Bytes of a key that are no UTF-8 become U+FFFD.
std::string prediction_json(const Prediction& prediction, const SampleSpec& spec);

/// The class with the highest probability; none if one is NaN.
std::optional<size_t> likeliest(std::span<const float> probabilities);

}  // namespace telar
