#include "telar/train/predict_topic.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/data/source.h"
#include "telar/train/checkpoint.h"
#include "telar/train/data_record.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_stream.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

constexpr double kTopicWaitWarning = 10;

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string stream_source() {
  const auto found = std::ranges::find_if(source_types(),
                                          [](const SourceType& type) { return type.open_stream != nullptr; });
  return found->name;
}

/// A job in which only the data count: those of the run, or, if it was trained on something else, a topic of
/// samples like its own.
Job job_of_topic(const Trained& trained) {
  Job job = parse_job(fmt::format("model: mlp\ntraining: {{epoch_steps: 1}}\n"
                                  "data: {{source: {}, brokers: none, topic: none}}\n",
                                  stream_source()),
                      "data");
  if (trains_on_stream(trained.job.data)) {
    job.data = trained.job.data;
    return job;
  }
  job.data.options.set("brokers", "");
  job.data.options.set("shape", trained.spec.features.dims());
  job.data.options.set("classes", trained.spec.classes);
  job.data.rules = trained.job.data.rules;
  job.data.normalise = trained.job.data.normalise;
  job.data.mean = trained.job.data.mean;
  job.data.std = trained.job.data.std;
  return job;
}

DataJob data_of(const Trained& trained, const PredictTopicRequest& request, const std::string& group) {
  if (request.overrides.empty() && !trains_on_stream(trained.job.data))
    throw user_error(
        "the run in {} was not trained from a topic, so nothing says where its brokers are and how a message holds a sample; add --set data.brokers=HOST:PORT and, as the messages need it, --set data.format=json (docs/stream.md)",
        trained.checkpoint.string());
  std::vector<std::string> overrides = request.overrides;
  for (const std::string& own :
       {"topic=" + quoted(request.from), "group=" + quoted(group), std::string("order=arrival"),
        std::string("end=never"), std::string("start=earliest")})
    overrides.push_back("data." + own);
  return changed_job(job_of_topic(trained), "the data of the run", overrides).data;
}

/// "telar-fashion-1-events", of the run's folder or the checkpoint that was given.
std::string group_of(const Trained& trained, const PredictTopicRequest& request) {
  if (!request.group.empty()) return request.group;
  const auto folder = fs::absolute(trained.checkpoint).lexically_normal().parent_path();
  const bool of_run = folder.filename() == "checkpoints";
  return fmt::format("telar-{}-{}", (of_run ? folder.parent_path() : folder).filename().string(),
                     request.from);
}

/// Where each partition begins. `ranges`: the messages that there are.
std::vector<int64_t> starts_of(MessageLog& log, const std::vector<OffsetRange>& ranges,
                               const PredictTopicRequest& request, const std::string& group) {
  const std::vector<std::optional<int64_t>> told = log.told_used();
  const bool is_new = std::ranges::none_of(told, [](const auto& offset) { return offset.has_value(); });
  std::vector<int64_t> starts;
  for (size_t p = 0; p < told.size(); ++p) {
    starts.push_back(told[p].value_or(is_new && request.latest ? ranges[p].end : ranges[p].first));
    if (starts[p] < ranges[p].first)
      throw user_error(
          "topic '{}', partition {}: the messages from offset {} to {}, which follow the committed offset of group '{}', do not exist any more; to begin with those that do, give another --group",
          log.name(), p, starts[p], ranges[p].first - 1, group);
  }
  return starts;
}

/// Writes predictions to a topic, each to the partition of its message's number, so that the order of those
/// stays.
class TopicWriter final : public PredictionWriter {
 public:
  TopicWriter(const KafkaTopic& topic, int partitions, SampleSpec spec, const PredictTopicRequest& request)
      : name_(topic.name),
        spec_(std::move(spec)),
        warn_(request.warn),
        stop_requested_(request.stop_requested),
        sink_(open_kafka_sink(topic, partitions, [this] { return stops(); })) {}

  bool write(const Prediction& prediction) override {
    const std::string text = prediction_json(prediction, spec_);
    std::optional<std::string_view> key;
    if (prediction.key) key = *prediction.key;
    waits_since_ = std::chrono::steady_clock::now();
    return sink_->publish(prediction.partition % sink_->partitions(), {.value = text, .key = key});
  }

  bool store() override {
    waits_since_ = std::chrono::steady_clock::now();
    const bool stored = sink_->flush() == 0;
    warned_ = false;
    return stored;
  }

 private:
  /// The sink asks while it waits.
  bool stops() {
    if (!warned_ && seconds_since(waits_since_) >= kTopicWaitWarning && warn_) {
      warned_ = true;
      const std::string trouble = sink_->trouble();
      warn_(fmt::format("topic '{}': waiting until the brokers have stored the results{}", name_,
                        trouble.empty() ? "" : ": " + trouble));
    }
    return stop_requested_ && stop_requested_();
  }

  std::string name_;
  SampleSpec spec_;
  std::function<void(const std::string&)> warn_;
  std::function<bool()> stop_requested_;
  std::chrono::steady_clock::time_point waits_since_;
  bool warned_ = false;
  std::unique_ptr<MessageSink> sink_;
};

/// JSON has no NaN.
std::string number_text(float value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string list_text(std::span<const float> values) {
  std::string text = "[";
  for (const float value : values) text += (text.size() > 1 ? "," : "") + number_text(value);
  return text + "]";
}

}  // namespace

std::optional<size_t> likeliest(std::span<const float> probabilities) {
  if (std::ranges::any_of(probabilities, [](float value) { return std::isnan(value); })) return std::nullopt;
  return static_cast<size_t>(std::ranges::max_element(probabilities) - probabilities.begin());
}

std::string prediction_json(const Prediction& prediction, const SampleSpec& spec) {
  std::string text = fmt::format("{{\"partition\":{},\"offset\":{}", prediction.partition, prediction.offset);
  if (prediction.key)
    text += ",\"key\":" +
            nlohmann::json(*prediction.key).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text += fmt::format(",\"step\":{}", prediction.step);
  if (spec.classes == 0) return text + ",\"values\":" + list_text(prediction.outputs) + "}";
  const std::optional<size_t> best = likeliest(prediction.outputs);
  text += best ? fmt::format(",\"class\":{}", *best) : ",\"class\":null";
  if (best && *best < spec.class_names.size()) text += ",\"class_name\":" + quoted(spec.class_names[*best]);
  return text + ",\"probabilities\":" + list_text(prediction.outputs) + "}";
}

void require_format_of_training(const fs::path& checkpoint, const DataJob& data) {
  const fs::path file = checkpoint / "data.json";
  if (!fs::exists(file)) return;
  const DataRecord record = data_record_from_json(read_checkpoint_text(file), file.string());
  for (const auto& [name, files] : format_files(data)) {
    const auto before = record.sources.find(name);
    if (before == record.sources.end() || before->second == files) continue;
    throw user_error(
        "{} ({}) is not the file of the training, so it may find other numbers under the same names; give that file, or score with this one (--accept-changed-data)",
        name, data.options.text(name.substr(std::string_view("data.").size())));
  }
}

PredictTopic open_predict_topic(const Trained& trained, const PredictTopicRequest& request) {
  if (request.to == request.from)
    throw user_error(
        "--to is '{}', the topic of --from, so results would be read as messages; give another one",
        request.to);
  PredictTopic opened;
  opened.group = group_of(trained, request);
  const DataJob data = data_of(trained, request, opened.group);
  if (!request.accept_changed_data) require_format_of_training(trained.checkpoint, data);
  KafkaTopic topic = kafka_topic_of(data.options);
  PredictStreamOptions& options = opened.options;
  options.format = message_format_of(data.options);
  options.format.labelled = false;
  require_fit(trained, options.format.spec);
  opened.log = open_kafka_log(topic);
  const std::vector<OffsetRange> ranges = opened.log->ranges();
  options.starts = starts_of(*opened.log, ranges, request, opened.group);
  for (size_t p = 0; request.end_now && p < ranges.size(); ++p) options.ends.push_back(ranges[p].end);
  options.messages = request.messages;
  options.batch = trained.job.training.evaluation_batch;
  if (const double linger = linger_seconds(data); linger > 0) options.linger_seconds = linger;
  options.scale = message_scale(data);
  options.damage = {.skip = data.options.text("on_error") == "skip",
                    .batch = options.batch,
                    .dead_letters = {},
                    .warn = request.warn};
  topic.group.clear();
  topic.name = data.options.text("dead_letter");
  if (!topic.name.empty()) options.damage.dead_letters = open_kafka_sink(topic, 0, request.stop_requested);
  topic.name = request.to;
  if (!request.to.empty())
    opened.writer = std::make_unique<TopicWriter>(topic, opened.log->partitions(), trained.spec, request);
  options.stop_requested = request.stop_requested;
  return opened;
}

}  // namespace telar
