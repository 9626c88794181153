#include "telar/train/publish.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "telar/core/buffer.h"
#include "telar/core/clock.h"
#include "telar/core/error.h"

namespace telar {

namespace {

/// The messages of some partitions.
class Bot {
 public:
  Bot(const Dataset& data, const PublishOptions& options, std::unique_ptr<MessageSink> sink, int number)
      : data_(data),
        options_(options),
        sink_(std::move(sink)),
        number_(number),
        features_(data.spec().feature_bytes()),
        label_(data.spec().label_bytes()) {}

  /// `give_up`: another bot has failed.
  void run(const std::atomic<bool>& give_up) {
    const int64_t all = data_.size();
    const int partitions = sink_->partitions();
    for (int64_t n = number_; options_.loop || n < all; ++n) {
      const auto partition = static_cast<int>(n % partitions);
      if (partition % options_.bots != number_) continue;
      if (give_up || !wait_until_due(n)) break;
      if (!send(n, partition)) break;
    }
    not_stored_ = sink_->flush();
  }

  int64_t messages() const { return messages_; }
  int64_t not_stored() const { return not_stored_; }

 private:
  /// False if it was stopped.
  bool wait_until_due(int64_t n) const {
    constexpr std::chrono::milliseconds kLongest(50);
    while (true) {
      if (options_.stop_requested && options_.stop_requested()) return false;
      if (options_.rate.first <= 0) return true;
      const double now = seconds_since(start_);
      const double early = static_cast<double>(n) - options_.rate.due(now);
      if (early <= 0) return true;
      std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(
          std::chrono::duration<double>(early / options_.rate.at(now)), kLongest));
    }
  }

  /// False if it was stopped.
  bool send(int64_t number, int partition) {
    const int64_t sample = number % data_.size();
    const std::span<std::byte> features(features_.data(), features_.size());
    const std::span<std::byte> label(label_.data(), label_.size());
    data_.read(sample, {}, features, label);
    if (options_.labels_drift_at >= 0 && number >= options_.labels_drift_at)
      change_label(data_.spec(), label);
    try {
      encode_message(options_.format, features, label, message_);
    } catch (const Error& error) {
      throw user_error("sample {}: {}", sample, error.what());
    }
    if (!sink_->publish(partition, message_)) return false;
    ++messages_;
    return true;
  }

  const Dataset& data_;
  const PublishOptions& options_;
  std::unique_ptr<MessageSink> sink_;
  int number_;
  Buffer features_;
  Buffer label_;
  std::string message_;
  int64_t messages_ = 0;
  int64_t not_stored_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A number above 0 that is the whole text; none for another text.
std::optional<double> rate_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool right =
      error == std::errc() && end == text.data() + text.size() && value >= 0.001 && value <= 1e9;
  return right ? std::optional(value) : std::nullopt;
}

}  // namespace

double PublishRate::at(double time) const {
  return time >= seconds ? last : first + (last - first) * time / seconds;
}

double PublishRate::due(double time) const {
  const double rising = std::min(time, seconds);
  return (first + at(rising)) / 2 * rising + last * (time - rising);
}

PublishRate publish_rate(const std::string& text) {
  const std::string_view all = text;
  const size_t dots = all.find("..");
  if (dots == std::string_view::npos) {
    if (const auto rate = rate_number(all)) return {*rate, *rate, 0};
  } else {
    const size_t slash = std::min(all.find('/'), all.size());
    const auto first = rate_number(all.substr(0, dots));
    const auto last = rate_number(all.substr(dots + 2, slash - std::min(slash, dots + 2)));
    const std::string_view time = all.substr(std::min(slash + 1, all.size()));
    const auto seconds = time.ends_with('s') ? rate_number(time.substr(0, time.size() - 1)) : std::nullopt;
    if (first && last && seconds) return {*first, *last, *seconds};
  }
  throw user_error(
      "the rate is '{}'; it must be a number of messages a second, as 5000, or one that changes, as 1000..5000/30s",
      text);
}

void change_label(const SampleSpec& spec, std::span<std::byte> label) {
  if (spec.classes > 0) {
    int32_t number = 0;
    std::memcpy(&number, label.data(), sizeof number);
    number = static_cast<int32_t>((number + 1) % spec.classes);
    std::memcpy(label.data(), &number, sizeof number);
    return;
  }
  for (float& target : as_floats(label)) target = -target;
}

int64_t labels_drift_at(const std::string& text) {
  const std::string form = "labels@";
  int64_t number = -1;
  const char* end = text.data() + text.size();
  if (text.starts_with(form)) {
    const auto [stop, error] = std::from_chars(text.data() + form.size(), end, number);
    if (error == std::errc() && stop == end && number >= 0) return number;
  }
  throw user_error(
      "the drift is '{}'; it must be labels@N, where N is the number of a message, as in {}100000", text,
      form);
}

Published publish(const Dataset& data, PublishOptions options) {
  const auto start = std::chrono::steady_clock::now();
  options.format.spec = data.spec();
  if (data.spec().dtype == DType::i32) options.format.dtype = "i32";
  // Which ids there are is the data's matter; a reader checks them.
  if (data.spec().dtype == DType::i32) options.format.vocabulary = 1 << 30;
  check_written(options.format);
  Published published;
  std::vector<std::unique_ptr<Bot>> bots;
  for (int b = 0; b < options.bots; ++b) {
    std::unique_ptr<MessageSink> sink =
        open_kafka_sink(options.topic, options.partitions, options.stop_requested);
    published.partitions = sink->partitions();
    if (options.partitions != 0 && options.partitions != published.partitions)
      throw user_error("topic '{}' exists with {} partitions, not {}", options.topic.name,
                       published.partitions, options.partitions);
    if (options.bots > published.partitions)
      throw user_error("{} bots cannot share {} partitions; each needs one of its own", options.bots,
                       published.partitions);
    bots.push_back(std::make_unique<Bot>(data, options, std::move(sink), b));
  }
  std::atomic<bool> give_up = false;
  std::vector<std::exception_ptr> errors(bots.size());
  {
    std::vector<std::jthread> threads;
    for (size_t b = 0; b < bots.size(); ++b) {
      threads.emplace_back([&, b] {
        try {
          bots[b]->run(give_up);
        } catch (...) {
          errors[b] = std::current_exception();
          give_up = true;
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  int64_t not_stored = 0;
  for (const auto& bot : bots) {
    published.messages += bot->messages();
    not_stored += bot->not_stored();
  }
  if (not_stored > 0)
    throw run_error("topic '{}': the brokers have not stored {} of {} messages within {} s after the stop",
                    options.topic.name, not_stored, published.messages, MessageSink::kStopWait.count());
  published.seconds = seconds_since(start);
  return published;
}

}  // namespace telar
