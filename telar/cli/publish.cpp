#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "telar/cli/options.h"
#include "telar/cli/verbs.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/normalised.h"
#include "telar/data/rounding_loss.h"
#include "telar/observe/stop_request.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_stream.h"
#include "telar/train/pipeline.h"
#include "telar/train/publish.h"

namespace telar::cli {

namespace {

constexpr StopRequest::Messages kPublishStops = {"stopping after the messages that are under way\n",
                                                 "quitting at once\n"};

struct PublishArguments {
  std::string data;
  std::vector<std::string> overrides;
  std::vector<std::string> settings;
  std::string rate;
  std::string fields;
  PublishOptions options;
  std::string drift;
  bool quiet = false;
};

/// The data of a job, or of a source with its defaults.
DataJob data_of(const PublishArguments& arguments) {
  const bool file = std::filesystem::exists(arguments.data);
  DataJob data = (file ? read_job(arguments.data, arguments.overrides)
                       : parse_job("model: mlp\ndata: {source: \"" + arguments.data + "\"}\n", "DATA",
                                   arguments.overrides))
                     .data;
  if (trains_on_stream(data))
    throw user_error("{} is a stream itself; give a source of samples in files", data.source);
  // All samples as they are: who reads them divides and normalises.
  data.validation = data.test = 0;
  data.folds = 0;
  data.split = "random";
  data.normalise = data.shuffle = data.augment_flip = false;
  data.augment_padding = 0;
  data.mixing = "shuffled";
  return data;
}

std::vector<std::string> settings_of(const std::vector<std::string>& assignments) {
  std::vector<std::string> settings;
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos) throw user_error("--kafka needs KEY=VALUE, as in security.protocol=ssl");
    settings.push_back(assignment.substr(0, equals) + ": " + assignment.substr(equals + 1));
  }
  check_kafka_settings(settings);
  return settings;
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

int publish_data(const PublishArguments& arguments) {
  const StopRequest stop(arguments.quiet ? StopRequest::Messages{} : kPublishStops);
  PublishOptions options = arguments.options;
  options.topic.settings = settings_of(arguments.settings);
  if (!arguments.rate.empty()) options.rate = publish_rate(arguments.rate);
  if (!arguments.fields.empty()) {
    if (options.format.name != "json")
      throw user_error(
          "--fields names the fields of json, but the format is {}; leave it out, or give --format json",
          options.format.name);
    options.format.fields = names_in(arguments.fields);
  }
  options.stop_requested = [&stop] { return stop.requested(); };
  if (!arguments.drift.empty()) options.labels_drift_at = labels_drift_at(arguments.drift);
  DataJob data = data_of(arguments);
  const Datasets samples = divide(data, 0, open_sources(data, 0, picture_listing(data, nullptr)));
  for (const std::string& note : samples.notes)
    if (!arguments.quiet) std::cerr << "warning: " << note << std::endl;
  if (samples.spec().labels_positions())
    throw user_error("a sample of source {} has {} labels, but a message has one", data.source,
                     samples.spec().labels.elements());
  const bool as_text = options.format.name != "raw";
  const std::string rounded = as_text ? ""
                                      : feature_warning(*samples.train, arguments.data,
                                                        "--format csv or json keeps them as they are");
  if (!arguments.quiet && !rounded.empty()) std::cerr << "warning: " << rounded << std::endl;
  const Published published =
      telar::publish(as_text ? *samples.train : *without_width(samples.train), options);
  if (!arguments.quiet)
    std::cout << fmt::format(
                     "published {} messages to {} partitions of topic '{}' in {:.1f} s, {:.0f} a second\n",
                     published.messages, published.partitions, options.topic.name, published.seconds,
                     static_cast<double>(published.messages) / published.seconds)
              << std::flush;
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

}  // namespace

void add_publish(Verb& program) {
  auto arguments = std::make_shared<PublishArguments>();
  PublishOptions& options = arguments->options;
  Verb verb = program.subverb("publish", "Publishes samples to a topic of Apache Kafka");
  verb.option("DATA", arguments->data,
              "A source of samples (docs/job.md), or a job file: its training samples")
      .required();
  verb.option("--brokers", options.topic.brokers, "HOST:PORT of the brokers, separated by commas").required();
  verb.option("--topic", options.topic.name, "The topic; it is created if it does not exist").required();
  verb.option("--partitions", options.partitions, "Partitions of a topic that is created (1)")
      .between(1, 100'000);
  verb.option("--format", options.format.name,
              "How a message holds a sample: " + one_of(written_format_names()))
      .show_default();
  verb.option("--dtype", options.format.dtype, "Numbers of a raw message; u8 for images of bytes")
      .one_of({"u8", "f32"})
      .show_default();
  verb.option(
          "--fields", arguments->fields,
          "Fields of a json message that have the features, separated by commas: one for all (x), or one for each")
      .value_name("NAME,NAME");
  verb.option("--bots", options.bots, "Threads that publish, each to partitions of its own")
      .between(1, 1024)
      .show_default();
  verb.option(
      "--rate", arguments->rate,
      "Messages a second, all bots together, as 5000; or rising, as 1000..5000/30s; as fast as possible without it");
  verb.flag("--loop", options.loop, "Begin again after the last sample, until Ctrl-C");
  verb.option("--drift", arguments->drift,
              "labels@N: from message N on, each class is the next one, and each target has the other sign")
      .value_name("labels@N");
  verb.option("--kafka", arguments->settings, "KEY=VALUE of librdkafka, such as security.protocol=ssl")
      .value_name("KEY=VALUE")
      .one_value_at_a_time();
  add_overrides(verb, arguments->overrides);
  verb.flag("--quiet", arguments->quiet, "Print only errors");
  verb.footer(
      "Examples:\n"
      "  telar publish fashion-mnist --brokers localhost:9092 --topic events --dtype u8 --partitions 4\n"
      "  telar publish csv --set data.path=table.csv --brokers localhost:9092 --topic rows --format csv\n"
      "  telar publish fashion-mnist --brokers localhost:9092 --topic events --dtype u8 --bots 4 --rate 5000 --loop");
  verb.action([arguments] { return publish_data(*arguments); });
}

}  // namespace telar::cli
