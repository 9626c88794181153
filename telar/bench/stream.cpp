#include "telar/bench/stream.h"

#include "telar/core/error.h"
#include "telar/data/kafka.h"
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

Figure per_second(int64_t messages, const Times& times) {
  return {"messages per second", "", 1e3 * static_cast<double>(messages) / times.median()};
}

}  // namespace

Result measure_stream(Job job, int rounds) {
  if (!trains_on_stream(job.data)) throw user_error("the job trains on {}, not on a stream", job.data.source);
  job.data.options.set("end", "now");
  const Attributes& options = job.data.options;
  const KafkaTopic topic{options.text("brokers"), options.text("topic"), "", options.texts("kafka")};
  const auto messages = open_job_stream(job)->size(0)->samples;
  Times plain;
  Times decoded;
  for (int round = 0; round <= rounds; ++round) {
    const StreamPtr stream = open_job_stream(job);
    const auto consumer = open_plain_consumer(topic);
    const auto none = [] {};
    const Times a = time_calls(1, none, [&] { consumer->consume(stream->starts(), messages); });
    const Times b = time_calls(1, none, [&] { read_all(*stream); });
    if (round == 0) continue;  // the broker's own caches
    plain.milliseconds.push_back(a.milliseconds.front());
    decoded.milliseconds.push_back(b.milliseconds.front());
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
  result.drawn = "messages per second";
  return result;
}

}  // namespace telar::bench
