#include "telar/bench/stream.h"

#include <string>
#include <string_view>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/messages/message_format.h"
#include "telar/data/streams/kafka.h"
#include "telar/train/job_stream.h"

namespace telar::bench {

namespace {

int64_t read_all(const Stream& stream) {
  Batch batch(stream.tensors());
  int64_t samples = 0;
  for (Position at = stream.begin(0); !stream.at_end(at); at = batch.after) {
    stream.read(at, batch);
    samples += batch.size();
  }
  return samples;
}

/// The first messages of a stream, one of each partition in turn.
class KeptMessages {
 public:
  KeptMessages(const KafkaTopic& topic, const Stream& stream, int64_t messages) {
    const auto log = open_kafka_log(topic);
    for (int p = 0; p < log->partitions(); ++p) log->seek(p, stream.starts()[static_cast<size_t>(p)]);
    std::vector<int64_t> next = stream.starts();
    for (int p = 0; size() < messages && bytes_.size() < kMostBytes; p = (p + 1) % log->partitions()) {
      int64_t& offset = next[static_cast<size_t>(p)];
      if (offset >= stream.ends()[static_cast<size_t>(p)]) continue;
      const std::optional<Message> message = log->next(p, std::chrono::seconds(10));
      if (!message) throw run_error("topic '{}', partition {}: no message arrives", topic.name, p);
      bytes_ += message->value;
      ends_.push_back(bytes_.size());
      offset = message->offset + 1;
    }
  }

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  size_t bytes() const { return bytes_.size(); }

  /// Decodes all of them into the same sample.
  void decode(MessageDecoder& decoder, std::span<std::byte> features, std::span<std::byte> label) const {
    size_t begin = 0;
    for (const size_t end : ends_) {
      decoder.decode(std::string_view(bytes_).substr(begin, end - begin), features, label);
      begin = end;
    }
  }

 private:
  static constexpr size_t kMostBytes = size_t{32} << 20;
  std::string bytes_;
  std::vector<size_t> ends_;
};

Figure per_second(int64_t messages, const Times& times) {
  return {"messages per second", "", 1e3 * static_cast<double>(messages) / times.median()};
}

}  // namespace

Result measure_stream(Job job, int rounds) {
  if (!trains_on_stream(job.data)) throw user_error("the job trains on {}, not on a stream", job.data.source);
  job.data.options.set("end", "now");
  job.data.options.set("dead_letter", std::string());  // reading them again publishes none of them again
  const Attributes& options = job.data.options;
  const KafkaTopic topic{options.text("brokers"), options.text("topic"), "", options.texts("kafka")};
  const StreamPtr opened = open_job_stream(job);
  const int64_t messages = opened->size(0)->samples;
  const KeptMessages kept(topic, *opened, messages);
  const auto decoder = message_decoder(message_format_of(options));
  Batch sample(opened->tensors());
  sample.resize(1);
  const std::span<std::byte> features(sample.data(0), sample.tensors()[0].sample_bytes());
  const std::span<std::byte> label(sample.data(1), sample.tensors()[1].sample_bytes());
  Times plain;
  Times decoded;
  Times alone;
  for (int round = 0; round <= rounds; ++round) {
    const StreamPtr stream = open_job_stream(job);
    const auto consumer = open_plain_consumer(topic);
    const auto none = [] {};
    const Times a = time_calls(1, none, [&] { consumer->consume(stream->starts(), messages); });
    const Times b = time_calls(1, none, [&] { read_all(*stream); });
    const Times c = time_calls(1, none, [&] { kept.decode(*decoder, features, label); });
    if (round == 0) continue;  // the broker's own caches
    plain.milliseconds.push_back(a.milliseconds.front());
    decoded.milliseconds.push_back(b.milliseconds.front());
    alone.milliseconds.push_back(c.milliseconds.front());
  }
  Result result{.experiment = "stream",
                .title = fmt::format("{} messages of topic '{}', {}", messages, topic.name, kafka_library()),
                .settings = {"what"}};
  result.environment = read_environment();
  result.rows.push_back({{"librdkafka's batch consume"}, Measured{.times = plain}});
  result.rows.back().figures = {per_second(messages, plain)};
  result.rows.push_back({{"decoded into batches"}, Measured{.times = decoded}});
  result.rows.back().figures = {per_second(messages, decoded),
                                {"× librdkafka", "", plain.median() / decoded.median()}};
  result.rows.push_back({{fmt::format("decoding alone, {} messages in memory", kept.size())},
                         Measured{.times = alone, .bytes = static_cast<double>(kept.bytes())}});
  result.rows.back().figures = {per_second(kept.size(), alone)};
  result.drawn = "messages per second";
  return result;
}

}  // namespace telar::bench
