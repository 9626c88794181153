#include "telar/data/streams/kafka.h"

#include <charconv>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/source.h"
#include "telar/data/streams/stream_batches.h"
#include "telar/data/streams/stream_start.h"

namespace telar {

namespace {

/// The integers of "offsets: [3, 5]" or "messages: 7"; none for another text.
std::vector<int64_t> numbers_of(const std::string& text, const std::string& form) {
  std::vector<int64_t> numbers;
  if (!text.starts_with(form + ": ")) return numbers;
  const char* at = text.data() + form.size() + 2;
  const char* end = text.data() + text.size();
  while (at < end) {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error == std::errc()) numbers.push_back(number);
    at = error == std::errc() ? stop : at + 1;
  }
  return numbers;
}

constexpr std::string_view kTimestamp = "timestamp: ";

void check_offsets(const Attributes& options, const std::string& name) {
  const std::string& value = options.text(name);
  if (value.starts_with("offsets: ") && numbers_of(value, "offsets").empty())
    throw OptionError(
        name, fmt::format("data.{} is {{{}}}; it must have an offset for each partition", name, value));
}

void check_end(const Attributes& options) {
  const std::string& end = options.text("end");
  if (end.starts_with("messages: ")) {
    const std::vector<int64_t> messages = numbers_of(end, "messages");
    if (messages.size() != 1)
      throw OptionError("end", fmt::format("data.end is {{{}}}; it must be one number", end));
    if (messages.front() == 0)
      throw OptionError("end", "data.end is {messages: 0}; it must be at least one message");
  }
  if (options.real("linger_ms") > 0 && (options.text("order") != "arrival" || end != "never"))
    throw OptionError(
        "linger_ms",
        fmt::format("data.linger_ms is {}, so batches would depend on the time; it is for data.order arrival "
                    "and data.end never",
                    options.real("linger_ms")));
  if (options.text("order") == "arrival" && end.starts_with("messages: "))
    throw OptionError(
        "order",
        "data.order is arrival, so the messages of data.end: {messages: …} would be others each "
        "time; use fixed");
}

void check_kafka(const Attributes& options) {
  for (const char* name : {"brokers", "topic"}) {
    if (options.text(name).empty())
      throw OptionError("source", fmt::format("source kafka needs 'data.{}'", name));
  }
  if (options.integers("shape").empty())
    throw OptionError("shape", "data.shape is empty; it must contain at least one number");
  try {
    check(message_format_of(options));
  } catch (const Error& error) {
    throw OptionError("format", fmt::format("data.format: {}", error.what()));
  }
  try {
    check_brokers(options.text("brokers"));
    check_kafka_settings(options.texts("kafka"));
  } catch (const Error& error) {
    throw OptionError("source", error.what());  // the place of data.kafka may be an override, with its values
  }
  const std::string& dead_letter = options.text("dead_letter");
  if (!dead_letter.empty() && options.text("on_error") != "skip")
    throw OptionError("dead_letter",
                      fmt::format("data.dead_letter is {}, but data.on_error is {}; it must be skip",
                                  dead_letter, options.text("on_error")));
  if (!dead_letter.empty() && dead_letter == options.text("topic"))
    throw OptionError("dead_letter", "data.dead_letter is the topic itself; it must be another one");
  if (const std::string& start = options.text("start"); start.starts_with(kTimestamp)) {
    try {
      time_from(start.substr(kTimestamp.size()));
    } catch (const Error& error) {
      throw OptionError("start", fmt::format("data.start: {}", error.what()));
    }
  }
  if (options.text("test_source").empty() && !options.text("test_path").empty())
    throw OptionError("test_path", "data.test_path needs data.test_source, which says how the file is read");
  check_offsets(options, "start");
  check_offsets(options, "end");
  check_end(options);
}

std::vector<int64_t> firsts(const std::vector<OffsetRange>& ranges) {
  std::vector<int64_t> offsets;
  for (const OffsetRange& range : ranges) offsets.push_back(range.first);
  return offsets;
}

std::vector<int64_t> ends_of(const std::vector<OffsetRange>& ranges) {
  std::vector<int64_t> offsets;
  for (const OffsetRange& range : ranges) offsets.push_back(range.end);
  return offsets;
}

/// Where a pass begins. `ranges`: what the topic has now.
std::vector<int64_t> starts_of(const std::string& start, MessageLog& log,
                               const std::vector<OffsetRange>& ranges) {
  if (start.starts_with(kTimestamp)) {
    const std::string time = start.substr(kTimestamp.size());
    return offsets_since(log, time_from(time), time, ranges);
  }
  return start == "latest" ? ends_of(ranges) : firsts(ranges);
}

StreamPtr open_topic(const StreamRequest& request) {
  const Attributes& options = request.options;
  std::unique_ptr<MessageLog> log = open_kafka_log(kafka_topic_of(options));
  const std::string& start = options.text("start");
  const std::string& end = options.text("end");
  StreamOptions stream;
  stream.starts = numbers_of(start, "offsets");
  stream.ends = numbers_of(end, "offsets");
  if (stream.starts.empty() || end == "now") {
    const std::vector<OffsetRange> ranges = log->ranges();
    if (stream.starts.empty()) stream.starts = starts_of(start, *log, ranges);
    if (end == "now") stream.ends = ends_of(ranges);
  }
  stream.fewer_partitions = request.partitions != StreamPartitions::all;
  if (request.partitions == StreamPartitions::given_and_new && end == "never")
    for (auto p = static_cast<int>(stream.starts.size()); p < log->partitions(); ++p)
      stream.starts.push_back(log->first(p));
  const std::vector<int64_t> messages = numbers_of(end, "messages");
  stream.messages = messages.empty() ? 0 : messages.front();
  stream.format = message_format_of(options);
  stream.batch = request.batch;
  stream.part = request.part;
  stream.by_arrival = options.text("order") == "arrival";
  stream.linger_seconds = 1e-3 * options.real("linger_ms");
  stream.audit = options.flag("audit");
  stream.remembered += static_cast<size_t>(request.ahead);
  stream.skip_damaged = options.text("on_error") == "skip";
  if (!options.text("dead_letter").empty())
    stream.dead_letters =
        open_kafka_sink({options.text("brokers"), options.text("dead_letter"), "", options.texts("kafka")}, 0,
                        request.stop_requested);
  stream.scale = request.scale;
  stream.warn = request.warn;
  stream.stop_requested = request.stop_requested;
  return std::make_shared<StreamBatches>(std::move(log), std::move(stream));
}

/// Whether each number of a message has a field of its own, by which it can be found in a table.
bool names_numbers(const Attributes& options) {
  const std::string& format = options.text("format");
  const auto fields = static_cast<int64_t>(options.texts("fields").size());
  return (format == "json" || format == "avro" || format == "protobuf") && fields > 1 &&
         fields == Shape(options.integers("shape")).elements();
}

/// The test samples are those of another source.
OpenedSource open_test_of(const SourceRequest& request, Split part) {
  const Attributes& options = request.options;
  const std::string& name = options.text("test_source");
  if (part == Split::train) throw run_error("the training samples of source kafka are a stream");
  if (name.empty()) return {};
  const SourceType& type = source_type(name);
  if (type.open_stream) throw user_error("data.test_source is {}; test samples are those of a file", name);
  Attributes given;
  for (const Option& option : type.options) {
    const bool path = option.name == "path" || option.name == "test_path";
    if (path && !options.text("test_path").empty()) given.set(option.name, options.text("test_path"));
    if (option.name == "classes" || option.name == "shape") given.set(option.name, options.at(option.name));
    if (option.name == "columns" && names_numbers(options)) {
      given.set("columns", options.texts("fields"));
      given.set("label", options.text("label").empty() ? "label" : options.text("label"));
    }
  }
  const Attributes all = completed("source '" + name + "'", type.options, given);
  OpenedSource opened = type.open({all, request.seed, request.listing, request.rules}, Split::test);
  if (opened.samples == nullptr)
    throw user_error("data.test_source is {}, whose test samples are in a file; name it as data.test_path",
                     name);
  return opened;
}

}  // namespace

void register_kafka(SourceRegistry& registry) {
  const auto free_option = [](std::string name, Attribute fallback, ValueRule rule, std::string help) {
    Option option = samples_option(std::move(name), std::move(fallback), std::move(rule), std::move(help));
    option.on_resume = OnResume::free;
    option.because = "";
    return option;
  };
  const auto changing_option = [](std::string name, Attribute fallback, ValueRule rule, std::string help) {
    Option option = samples_option(std::move(name), std::move(fallback), std::move(rule), std::move(help));
    option.on_resume = OnResume::recorded;
    option.because = "";
    return option;
  };
  registry.add(
      {.name = "kafka",
       .summary = "messages of a topic of Apache Kafka, as they arrive (docs/stream.md)",
       .unit = "messages",
       .options =
           {free_option("brokers", "", {}, "The brokers, HOST:PORT,HOST:PORT."),
            samples_option("topic", "", {}, "Name of the topic. Each message is a sample."),
            samples_option(
                "format", "raw", {.choices = message_format_names()},
                "How a message holds a sample. raw: the features as `data.dtype`, then the label. json: an object. csv: a line of numbers. avro: a record of `data.schema`. protobuf: a message `data.message`."),
            samples_option("dtype", "f32", {.choices = {"u8", "f32", "i32"}},
                           "Numbers of a raw message. u8: v / 255 is the feature. i32: token ids."),
            samples_option("shape", std::vector<int64_t>{1, 28, 28}, {.least = 1, .most = 1 << 20},
                           "Shape of one sample."),
            classes_option(),
            samples_option("vocabulary", int64_t{0}, {.least = 0, .most = 1 << 30},
                           "Above 0: features are token ids below this value."),
            samples_option(
                "fields", std::vector<std::string>{"x"}, {},
                "Fields of a json, avro or protobuf message that are the features: numbers, or arrays of numbers."),
            samples_option(
                "label", "", {},
                "csv: the number of the label's column (-1 is the last); empty: the last. Other formats with fields: the field of the label; empty: `label`."),
            samples_option("schema", "", {}, "avro: the file with the schema of the records (.avsc)."),
            samples_option(
                "schema_ids", std::vector<int64_t>{}, {.least = 0},
                "avro, protobuf: each message begins with a 0 and one of these numbers of schemas, as Confluent's serializers write; all mean `data.schema` or `data.message`. Empty: messages have no such beginning."),
            samples_option(
                "descriptor", "", {},
                "protobuf: the file of a descriptor set, as `protoc --descriptor_set_out` writes it."),
            samples_option("message", "", {},
                           "protobuf: the message in it, with its package, as in `shop.Event`."),
            samples_option(
                "start", "earliest",
                {.choices = {"earliest", "latest"},
                 .forms = {"offsets", "timestamp"},
                 .text_forms = {"timestamp"}},
                "Where a new run begins. offsets: one for each partition. timestamp: at the first messages of this time or later, as 2026-11-24T18:00Z or milliseconds since 1970."),
            changing_option(
                "end", "never", {.choices = {"never", "now"}, .forms = {"messages", "offsets"}},
                "Where an epoch ends. never: it has `training.epoch_steps` steps, and the next one continues there. now: at the messages that the topic has when the run begins, and each epoch begins again."),
            samples_option(
                "order", "fixed", {.choices = {"fixed", "arrival"}},
                "fixed: one message of each partition in turn, so that every process, and a run that is repeated, has the same batches; a silent partition makes all wait. arrival: of the partitions that have one; for one process, or with parameter servers."),
            free_option(
                "linger_ms", 0.0, {.least = 0, .most = 3'600'000},
                "With `data.order: arrival` and `data.end: never`: milliseconds after which a batch is trained on although it is not full. 0: it waits until it is."),
            changing_option(
                "on_error", "stop", {.choices = {"stop", "skip"}},
                "What happens to a message that is not a sample. stop: the run ends with an error that names it. skip: it is named, counted and left out; its batch is smaller."),
            free_option(
                "dead_letter", "", {},
                "A topic to which the messages that `data.on_error: skip` leaves out are written, with the reason. It is created if it does not exist. Empty: none."),
            free_option(
                "group", "", {},
                "A consumer group whose offsets are committed after each checkpoint, for tools that show its lag. The run does not read them."),
            free_option(
                "audit", false, {},
                "Writes the offsets that each step has used, and those of damaged messages, to `offsets.jsonl` in the run folder."),
            free_option(
                "kafka", std::vector<std::string>{}, {.group = true},
                "librdkafka's own keys, such as `{security.protocol: ssl}`. A value `env:NAME` or `file:PATH` is read from there; passwords must be."),
            changing_option("test_source", "", {}, "The source of the test samples. Empty: there are none."),
            changing_option(
                "test_path", "", {},
                "File or folder of the samples of `data.test_source`. Empty: the default of that source.")},
       .paths = {"test_path", "schema", "descriptor"},
       .test_paths = {"test_path"},
       .bytes_are_fractions =
           [](const Attributes& options) {
             return options.text("format") == "raw" && options.text("dtype") == "u8";
           },
       .open = open_test_of,
       .open_stream = open_topic,
       .spec = spec_of_options,
       .check = check_kafka});
}

}  // namespace telar
