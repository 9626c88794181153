#include "telar/train/predict_stream.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <memory>
#include <utility>

#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/data/batch_source.h"
#include "telar/data/dataset_batches.h"

namespace telar {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kStoreSeconds = 1;
constexpr double kReportSeconds = 0.1;
constexpr double kWaitWarning = 10;
constexpr double kRateHalfLife = 5;  // seconds
/// How long one partition is waited for; another may receive a message first.
constexpr std::chrono::milliseconds kArrivalWait(2);

class StreamPrediction {
 public:
  StreamPrediction(Trained& trained, NewerParameters& parameters, MessageLog& log, PredictionWriter& writer,
                   const PredictStreamOptions& options)
      : trained_(trained),
        parameters_(parameters),
        log_(log),
        writer_(writer),
        options_(options),
        decoder_(message_decoder(options.format, options.scale)),
        damaged_(log.name(), options.damage),
        batch_(tensors_of(options.format.spec)),
        read_(options.starts),
        predicted_(options.starts) {
    for (int p = 0; p < log_.partitions(); ++p) log_.seek(p, read_[static_cast<size_t>(p)]);
    done_.next = options.starts;
  }

  PredictedStream run() {
    try {
      while (!has_ended() && !stops() && go_on()) {
      }
      store();
    } catch (const ReadStopped&) {
      done_.stored = false;
    }
    if (failure_) std::rethrow_exception(failure_);
    done_.seconds = seconds_since(start_);
    return done_;
  }

 private:
  struct Taken {
    int partition = 0;
    int64_t offset = 0;
    std::optional<std::string> key;
    int64_t time = -1;
  };

  /// One batch, which may be empty. False: this was the last one.
  bool go_on() {
    take_batch();
    predict_batch();
    if (failure_) return false;
    parameters_.look();
    if (seconds_since(stored_) >= kStoreSeconds) store();
    warn_of_waiting();
    warn_of_partitions();
    report();
    return true;
  }

  bool stops() const { return options_.stop_requested && options_.stop_requested(); }

  bool has_ended(int partition) const {
    return !options_.ends.empty() && log_.awaited(partition) >= options_.ends[static_cast<size_t>(partition)];
  }

  bool has_ended() const {
    if (options_.messages > 0 && messages_ >= options_.messages) return true;
    if (options_.ends.empty()) return false;
    for (int p = 0; p < log_.partitions(); ++p)
      if (!has_ended(p)) return false;
    return true;
  }

  /// Messages of any partition, until the batch is full or its first message has waited for long enough.
  void take_batch() {
    batch_.resize(options_.batch);
    taken_.clear();
    Clock::time_point opened;
    while (std::ssize(taken_) < options_.batch && !has_ended() && !failure_) {
      const bool empty = taken_.empty();
      const bool over = !empty && seconds_since(opened) >= options_.linger_seconds;
      const bool came = take_one(over ? std::chrono::milliseconds(0) : kArrivalWait);
      if (came) idle_since_ = Clock::now();
      if (!came && (empty || over)) return;
      if (empty) opened = Clock::now();
    }
  }

  /// False: no message came.
  bool take_one(std::chrono::milliseconds wait) {
    for (int i = 0; i < log_.partitions(); ++i) {
      const int partition = turn_;
      turn_ = turn_ + 1 == log_.partitions() ? 0 : turn_ + 1;
      if (has_ended(partition)) continue;
      const bool last = i + 1 == log_.partitions();
      const std::optional<Message> message = log_.next(partition, last ? wait : std::chrono::milliseconds(0));
      if (!message) continue;
      take(partition, *message);
      return true;
    }
    return false;
  }

  void take(int partition, const Message& message) {
    const size_t row = taken_.size();
    const size_t features = batch_.tensors()[0].sample_bytes();
    const size_t label = batch_.tensors()[1].sample_bytes();
    const std::span<std::byte> sample(batch_.data(0) + row * features, features);
    try {
      decoder_->decode(value_of(message), sample, {batch_.data(1) + row * label, label});
    } catch (const Error& error) {
      if (!leave_out(partition, message, error.what())) return;
      return pass(partition, message.offset);
    }
    damaged_.sample();
    batch_.ids()[row] = message.offset * log_.partitions() + partition;
    Taken& taken = taken_.emplace_back(Taken{partition, message.offset, std::nullopt, message.time});
    if (message.key) taken.key = std::string(*message.key);
    pass(partition, message.offset);
  }

  /// False: the damaged message ends the stream, after the messages before it.
  bool leave_out(int partition, const Message& message, const std::string& reason) {
    try {
      damaged_.leave_out(partition, message, reason, true, true);
    } catch (const Error&) {
      failure_ = std::current_exception();
      return false;
    }
    ++done_.left_out;
    return true;
  }

  void pass(int partition, int64_t offset) {
    read_[static_cast<size_t>(partition)] = offset + 1;
    ++messages_;
  }

  void predict_batch() {
    if (!taken_.empty()) {
      batch_.resize(std::ssize(taken_));
      const std::vector<float> outputs = predict(trained_, batch_);
      const size_t width = outputs.size() / taken_.size();
      batch_.arrived.clear();
      for (size_t row = 0; row < taken_.size(); ++row) {
        Taken& taken = taken_[row];
        if (taken.time >= 0) batch_.arrived.push_back(taken.time);
        const Prediction prediction{taken.partition, taken.offset, std::move(taken.key),
                                    std::span(outputs).subspan(row * width, width), trained_.step};
        if (!writer_.write(prediction)) throw ReadStopped();
      }
      done_.latency.add(latency_since(batch_.arrived));
      done_.predicted += std::ssize(taken_);
    }
    predicted_ = read_;
  }

  /// Throws ReadStopped if a stop comes before all is stored.
  void store() {
    stored_ = Clock::now();
    if (predicted_ == done_.next) return;
    damaged_.store();
    if (!writer_.store()) throw ReadStopped();
    log_.tell_used(predicted_);
    done_.next = predicted_;
  }

  /// That no message arrives is no trouble by itself.
  void warn_of_waiting() {
    const bool waits = seconds_since(idle_since_) >= kWaitWarning && !log_.trouble().empty();
    if (waits && !warned_ && options_.damage.warn)
      options_.damage.warn(fmt::format("topic '{}': waiting for messages: {}", log_.name(), log_.trouble()));
    warned_ = waits;
  }

  void warn_of_partitions() {
    const int now = log_.partitions_now();
    if (has_more_partitions_ || now <= log_.partitions()) return;
    has_more_partitions_ = true;
    if (options_.damage.warn)
      options_.damage.warn(fmt::format(
          "topic '{}' has {} partitions now; the messages of those after the first {} are scored when this command is started again",
          log_.name(), now, log_.partitions()));
  }

  void report() {
    const double seconds = seconds_since(reported_);
    if (!options_.progress || seconds < kReportSeconds) return;
    const double faded = std::exp2(-seconds / kRateHalfLife);
    rate_messages_ = faded * rate_messages_ + static_cast<double>(messages_ - reported_messages_);
    rate_seconds_ = faded * rate_seconds_ + seconds;
    reported_ = Clock::now();
    reported_messages_ = messages_;
    options_.progress({.predicted = done_.predicted,
                       .left_out = done_.left_out,
                       .rate = rate_messages_ / rate_seconds_,
                       .behind = behind(),
                       .step = trained_.step});
  }

  std::optional<int64_t> behind() const {
    int64_t sum = 0;
    for (int p = 0; p < log_.partitions(); ++p) {
      const int64_t at = predicted_[static_cast<size_t>(p)];
      const std::optional<int64_t> messages = log_.behind(p, at);
      if (!messages) return std::nullopt;
      sum += *messages;
    }
    return sum;
  }

  Trained& trained_;
  NewerParameters& parameters_;
  MessageLog& log_;
  PredictionWriter& writer_;
  const PredictStreamOptions& options_;
  std::unique_ptr<MessageDecoder> decoder_;
  DamagedMessages damaged_;
  Batch batch_;
  std::vector<Taken> taken_;        ///< the messages of the batch
  int turn_ = 0;                    ///< the partition that is asked next
  int64_t messages_ = 0;            ///< that were read
  std::vector<int64_t> read_;       ///< of each partition, behind the last message that was read
  std::vector<int64_t> predicted_;  ///< the same, up to the last batch
  std::exception_ptr failure_;      ///< why it ends after this batch
  PredictedStream done_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point stored_ = Clock::now();
  Clock::time_point idle_since_ = Clock::now();  ///< no message has come
  bool warned_ = false;                          ///< of that
  bool has_more_partitions_ = false;
  Clock::time_point reported_ = Clock::now();
  int64_t reported_messages_ = 0;
  double rate_messages_ = 0;
  double rate_seconds_ = 0;
};

}  // namespace

PredictedStream predict_stream(Trained& trained, NewerParameters& parameters, MessageLog& log,
                               PredictionWriter& writer, const PredictStreamOptions& options) {
  return StreamPrediction(trained, parameters, log, writer, options).run();
}

}  // namespace telar
