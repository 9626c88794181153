#include "telar/train/job_stream.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/reading_rules.h"
#include "telar/data/source.h"
#include "telar/train/data_record.h"
#include "telar/train/job_strategy.h"

namespace telar {

namespace {

std::string offsets_text(const std::vector<int64_t>& offsets) {
  return fmt::format("offsets: [{}]", fmt::join(offsets, ", "));
}

bool is_decided(const std::string& text) { return text.starts_with("offsets: "); }

/// Whether the offsets are found out when the stream is opened.
bool is_open(const std::string& text) {
  return text == "earliest" || text == "latest" || text == "now" || text.starts_with("timestamp: ");
}

/// Options that the job leaves open are those of the run before.
void take_decided(DataJob& data, const DataJob& before) {
  if (before.source != data.source) return;
  for (const char* name : {"start", "end"}) {
    const std::string& decided = before.options.text_or(name, "");
    if (is_open(data.options.text(name)) && is_decided(decided)) data.options.set(name, decided);
  }
}

void write_decided(DataJob& data, const Stream& stream) {
  data.options.set("start", offsets_text(stream.starts()));
  if (!stream.ends().empty()) data.options.set("end", offsets_text(stream.ends()));
}

/// A lease has the positions of all its batches, in one message.
constexpr int64_t kMostAtOnce = 1000;

/// That each message is used once rests on two facts: the batches of a push are leased together, so a server
/// can tell that it comes again; and a server that has lost an update ends the run (StoreTenure).
void check_leasing(const Job& job, const std::function<std::string(const std::string& key)>& where) {
  const std::string& strategy = job.strategy.name;
  const Attributes& options = job.strategy.options;
  for (const char* every : {"push_every", "average_every"}) {
    if (const int64_t batches = options.has(every) ? options.integer(every) : 1; batches > kMostAtOnce)
      throw user_error("{}: on a stream, at most {} batches are pushed at once; it is {}",
                       where(fmt::format("strategy.{}", every)), kMostAtOnce, batches);
  }
  if (job.training.prequential.pass == "evaluation")
    throw user_error(
        "{}: the workers of strategy {} report the losses and accuracies of their training steps; choose training",
        where("training.prequential.pass"), strategy);
  if (job.training.drift.detector != "none" && job.training.drift.action == "raise_rate")
    throw user_error(
        "{}: the workers of strategy {} take the learning rate from the schedule, so a drift cannot raise it; choose log",
        where("training.drift.action"), strategy);
  if (options.text_or("payload", "whole") != "whole")
    throw user_error(
        "{}: on a stream it must be whole: what a payload leaves for later pushes would be lost with a worker",
        where("strategy.payload"));
}

void require_same_format(const DataJob& data, Processes& all) {
  std::string text;
  for (const auto& [name, files] : format_files(data)) text += fmt::format("{} {:08x}\n", name, files.crc32);
  all.require_same(text, "the files that say how messages are read (data.schema, data.descriptor)");
}

StreamPtr open_here(const Job& job, const StreamOpening& opening, StreamPartitions partitions) {
  const DataJob& data = job.data;
  Part part;
  if (opening.processes != nullptr)
    part = {opening.processes->rank(), opening.processes->rank() + 1, opening.processes->size()};
  return source_type(data.source)
      .open_stream({.options = data.options,
                    .batch = job.training.batch,
                    .part = part,
                    .ahead = data.prefetch,
                    .partitions = partitions,
                    .scale = message_scale(data),
                    .warn = opening.warn,
                    .stop_requested = opening.stop_requested});
}

}  // namespace

FeatureScale message_scale(const DataJob& data) {
  if (!data.normalise) return {};
  return {data.mean, data.std, data.rules < kWideMessageRules ? Normalising::rounded : Normalising::exact};
}

bool trains_on_stream(const DataJob& data) { return source_type(data.source).open_stream != nullptr; }

StreamPtr open_job_stream(Job& job, const StreamOpening& opening) {
  Processes* all = opening.processes;
  if (all != nullptr && job.data.options.text_or("order", "") == "arrival")
    throw user_error(
        "data.order is arrival, so {} processes would not read the same batches; use fixed, or one process with several replicas",
        all->size());
  // A process reads its own part of each batch, which may lose damaged messages. Other strategies need the
  // whole batch in several processes, or parts of known sizes.
  if (all != nullptr) require_shares_of_batches(job, all->size(), "a stream");
  if (all != nullptr) require_same_format(job.data, *all);
  const bool decides = all == nullptr || all->rank() == 0;
  StreamPtr stream;
  if (decides) {
    if (opening.before != nullptr) take_decided(job.data, *opening.before);
    stream = open_here(job, opening,
                       opening.decided             ? StreamPartitions::given
                       : opening.before != nullptr ? StreamPartitions::given_and_new
                                                   : StreamPartitions::all);
    write_decided(job.data, *stream);
  }
  if (all == nullptr) return stream;
  for (const char* name : {"start", "end"}) {
    std::string text = job.data.options.text(name);
    all->broadcast(text);
    job.data.options.set(name, text);
  }
  return decides ? stream : open_here(job, opening, StreamPartitions::given);
}

double linger_seconds(const DataJob& data) {
  return data.options.has("linger_ms") ? 1e-3 * data.options.real("linger_ms") : 0;
}

int64_t steps_of_epoch(const Job& job, const Stream& stream) {
  const std::optional<PassSize> size = stream.size(0);
  return size ? size->batches : job.training.epoch_steps;
}

StreamEvaluationOptions job_evaluation(const Job& job, const std::vector<std::string>& metrics) {
  const PrequentialJob& prequential = job.training.prequential;
  const DriftJob& drift = job.training.drift;
  StreamEvaluationOptions options{.means = {prequential.window, prequential.fading},
                                  .separate_pass = prequential.pass == "evaluation"};
  if (drift.detector == "none") return options;
  DriftOptions& detecting = options.drift.emplace();
  if (drift.detector == "adwin") {
    detecting.detector = AdwinSettings{drift.delta};
  } else {
    detecting.detector = PageHinkleyOptions{drift.threshold, drift.tolerance, drift.values};
  }
  const auto accuracy = std::ranges::find(metrics, "accuracy");
  detecting.is_accuracy = drift.signal == "error" || (drift.signal == "auto" && accuracy != metrics.end());
  if (detecting.is_accuracy) {
    if (accuracy == metrics.end())
      throw user_error(
          "training.drift.signal is error, which needs the accuracy of classes (data.classes above 0, and 1 in training.top_k)");
    detecting.metric = static_cast<size_t>(accuracy - metrics.begin());
  }
  if (drift.action == "raise_rate") {
    detecting.factor = drift.factor;
    detecting.steps = drift.steps;
  }
  return options;
}

void check_stream_keys(const Job& job, const std::function<std::string(const std::string& key)>& where) {
  if (uses_servers(job)) check_leasing(job, where);
  if (job.training.early_stopping_patience > 0)
    throw user_error("{}: early stopping requires validation samples, which source {} does not set aside",
                     where("training.early_stopping.patience"), job.data.source);
  const bool endless = job.data.options.text_or("end", "") == "never";
  if (endless && job.schedule.name == "cosine")
    throw user_error(
        "{}: schedule.name is cosine, which ends with the last step, and data.end is never; choose constant, step, exponential or inverse_time",
        where("schedule.name"));
  if (endless && job.training.epoch_steps == 0)
    throw user_error("{}: data.end is never, so training.epoch_steps must say how many steps an epoch has",
                     where("training.epoch_steps"));
  if (!endless && job.training.epoch_steps > 0)
    throw user_error("{}: training.epoch_steps is for data.end never; in this job it is {}",
                     where("training.epoch_steps"), job.data.options.text_or("end", ""));
}

}  // namespace telar
