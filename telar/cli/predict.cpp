#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>

#include "telar/cli/options.h"
#include "telar/cli/verbs.h"
#include "telar/core/error.h"
#include "telar/core/utf8.h"
#include "telar/io/atomic_file.h"
#include "telar/observe/progress.h"
#include "telar/observe/stop_request.h"
#include "telar/train/generate.h"
#include "telar/train/newer_parameters.h"
#include "telar/train/predict_stream.h"
#include "telar/train/predict_topic.h"
#include "telar/train/trained.h"

namespace telar::cli {

namespace {

struct PredictArguments {
  std::string trained;
  std::vector<std::string> inputs;
  std::vector<std::string> overrides;
  std::string out;
  bool best = false;
  bool all = false;
  bool quiet = false;
  PredictTopicRequest topic;
  std::string start = "earliest";
  std::string end = "never";
  bool continues = false;  ///< a prompt is given; it may be empty
  std::string prompt;
  int64_t tokens = 100;
  double temperature = 1;
  int64_t seed = 0;
};

constexpr StopRequest::Messages kPredictStops = {
    "stopping when the results are stored\n", "quitting at once; the newest messages will be scored again\n"};

/// A cell of a CSV table, quoted if necessary.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string class_name(const SampleSpec& spec, size_t index) {
  return index < spec.class_names.size() ? spec.class_names[index] : fmt::format("{}", index);
}

/// `place`: the names of the columns that say which sample a line is of.
std::string header(const std::string& place, const Trained& trained, bool all) {
  const bool classes = trained.spec.classes > 0;
  const auto width = static_cast<size_t>(trained.session->prediction_shape().elements());
  const Attributes& options = trained.job.data.options;
  const auto targets = options.has("targets") ? options.texts("targets") : std::vector<std::string>{};
  std::string line = place + (classes ? ",class,probability" : "");
  for (size_t i = 0; i < width && (all || !classes); ++i) {
    const bool named = targets.size() == width;
    line += "," + (classes ? cell(fmt::format("p({})", class_name(trained.spec, i)))
                   : named ? cell(fmt::format("value({})", targets[i]))
                           : fmt::format("value_{}", i));
  }
  return line + "\n";
}

std::string row(const Trained& trained, std::span<const float> outputs, bool all) {
  std::string line;
  const bool classes = trained.spec.classes > 0;
  if (classes) {
    const std::optional<size_t> best = likeliest(outputs);
    line += best ? fmt::format(",{},{:.6f}", cell(class_name(trained.spec, *best)), outputs[*best]) : ",,nan";
  }
  for (size_t i = 0; i < outputs.size() && (all || !classes); ++i)
    line += std::isnan(outputs[i]) ? ",nan" : fmt::format(",{}", outputs[i]);
  return line + "\n";
}

int predict_inputs(const PredictArguments& arguments) {
  const auto say = [&](const std::string& text) {
    if (!arguments.quiet) std::cerr << text << std::endl;
  };
  const auto warn = [&](const std::string& text) { say("warning: " + text); };
  const Trained trained = load_trained(arguments.trained, arguments.best, arguments.overrides, warn);
  say("checkpoint: " + trained.checkpoint.string());
  require_one_prediction(trained);
  const auto width = static_cast<size_t>(trained.session->prediction_shape().elements());
  std::vector<std::string> kept_names;
  if (trained.job.data.options.has("drop")) kept_names = trained.job.data.options.texts("drop");
  std::string place = "input,sample";
  for (const std::string& name : kept_names) place += "," + cell(name);
  std::string table = header(place, trained, arguments.all);
  for (const std::string& input : arguments.inputs) {
    std::map<std::string, std::vector<std::string>> kept;
    const auto samples = open_inputs(trained, input, warn, [&](const auto& column) { kept.insert(column); });
    const std::vector<float> outputs = predict(trained, *samples);
    for (size_t sample = 0; sample < outputs.size() / width; ++sample) {
      std::string ids;
      for (const std::string& name : kept_names)
        ids += "," + (kept.contains(name) ? cell(kept.at(name)[sample]) : "");
      table += fmt::format("{},{}{}{}", cell(input), sample, ids,
                           row(trained, std::span(outputs).subspan(sample * width, width), arguments.all));
    }
  }
  if (arguments.out.empty()) {
    std::cout << table << std::flush;
  } else {
    write_file(arguments.out, table);
  }
  return 0;
}

/// Writes predictions as lines of CSV to standard output.
class CsvWriter final : public PredictionWriter {
 public:
  CsvWriter(const Trained& trained, bool all) : trained_(trained), all_(all) {
    std::cout << header("partition,offset,key,step", trained, all) << std::flush;
  }

  bool write(const Prediction& prediction) override {
    std::cout << fmt::format("{},{},{},{}{}", prediction.partition, prediction.offset,
                             prediction.key ? cell(*prediction.key) : "", prediction.step,
                             row(trained_, prediction.outputs, all_));
    return static_cast<bool>(std::cout);
  }

  bool store() override { return static_cast<bool>(std::cout.flush()); }

 private:
  const Trained& trained_;
  bool all_;
};

std::vector<LinePart> parts_of(const PredictProgress& progress) {
  std::vector<LinePart> parts = {{fmt::format("{} messages", grouped(progress.predicted)), 1},
                                 {fmt::format("{} messages/s", grouped(std::llround(progress.rate))), 0},
                                 {fmt::format("parameters of step {}", progress.step), 0}};
  const bool falls = progress.behind && progress.rate > 0;
  if (progress.behind)
    parts.push_back({behind_text(*progress.behind,
                                 falls ? std::optional(static_cast<double>(*progress.behind) / progress.rate)
                                       : std::nullopt),
                     2});
  if (progress.left_out > 0) parts.push_back({fmt::format("{} left out", grouped(progress.left_out)), 3});
  return parts;
}

std::string ending(const PredictedStream& predicted, int64_t step) {
  std::string text = fmt::format("scored {} messages in {:.1f} s, {:.0f} a second, the last with step {}",
                                 grouped(predicted.predicted), predicted.seconds,
                                 static_cast<double>(predicted.predicted) / predicted.seconds, step);
  if (predicted.left_out > 0) text += fmt::format("; left {} out", grouped(predicted.left_out));
  if (predicted.latency.count() > 0)
    text +=
        fmt::format("\nlatency: {:.0f} ms from a message's arrival to its result (median), {:.0f} ms (99 %)",
                    1e3 * predicted.latency.quantile(0.5), 1e3 * predicted.latency.quantile(0.99));
  return text;
}

/// The overrides of the data, which belong to the topic, and the others, which belong to the model.
std::vector<std::string> overrides_of(const std::vector<std::string>& all, bool data) {
  std::vector<std::string> found;
  std::ranges::copy_if(all, std::back_inserter(found), [data](const std::string& override) {
    return (override.starts_with("data.") || override.starts_with("data=")) == data;
  });
  return found;
}

int predict_messages(const PredictArguments& arguments) {
  const bool quiet = arguments.quiet;
  const StopRequest stop(quiet ? StopRequest::Messages{} : kPredictStops);
  ProgressOptions shown = progress_options(STDERR_FILENO, quiet);
  const bool table = arguments.topic.to.empty() && ::isatty(STDOUT_FILENO) == 1;
  if (table && shown.style == ProgressStyle::bar)
    shown.style = ProgressStyle::lines;  // between those of the table
  Progress progress(std::cerr, shown);
  PredictTopicRequest request = arguments.topic;
  request.latest = arguments.start == "latest";
  request.end_now = arguments.end == "now";
  request.overrides = overrides_of(arguments.overrides, true);
  request.stop_requested = [&stop] { return stop.requested(); };
  request.warn = [&](const std::string& text) { progress.message("warning: " + text); };
  Trained trained =
      load_trained(arguments.trained, false, overrides_of(arguments.overrides, false), request.warn);
  require_one_prediction(trained);
  PredictTopic topic = open_predict_topic(trained, request);
  progress.message(fmt::format("checkpoint: {}\ngroup: {}", trained.checkpoint.string(), topic.group));
  if (topic.writer == nullptr) topic.writer = std::make_unique<CsvWriter>(trained, arguments.all);
  topic.options.progress = [&progress](const PredictProgress& state) {
    progress.update([&state] { return parts_of(state); });
  };
  NewerParameters parameters(trained, arguments.trained, request.warn);
  const PredictedStream predicted =
      predict_stream(trained, parameters, *topic.log, *topic.writer, topic.options);
  progress.message(ending(predicted, trained.step));
  if (!predicted.stored && stop.requested())
    throw run_error(
        "the results of the newest messages could not be stored before the stop; these will be scored again");
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

/// Shows a text as it grows.
class GrowingText {
 public:
  bool add(std::string_view added) {
    waiting_ += added;
    return show(finished_text(waiting_));
  }
  void end() {
    show(waiting_.size());
    std::cout << std::endl;
  }

 private:
  bool show(size_t bytes) {
    std::cout << shown_as_text(std::string_view(waiting_).substr(0, bytes)) << std::flush;
    waiting_.erase(0, bytes);
    return static_cast<bool>(std::cout);
  }

  std::string waiting_;
};

/// A terminal gets what it can show, a file every byte.
int continue_prompt(const PredictArguments& arguments) {
  for (const std::string& override : arguments.overrides)
    if (override.starts_with("data.length=") || override.starts_with("data.stride="))
      throw user_error(
          "--set {}: a prompt is continued with the length of the training's samples; leave it out",
          override);
  const auto warn = [&](const std::string& text) {
    if (!arguments.quiet) std::cerr << "warning: " << text << std::endl;
  };
  const Trained trained = load_trained(arguments.trained, arguments.best, arguments.overrides, warn);
  if (!arguments.quiet) std::cerr << "checkpoint: " << trained.checkpoint.string() << std::endl;
  GenerateOptions options = {.tokens = arguments.tokens,
                             .temperature = arguments.temperature,
                             .seed = static_cast<uint64_t>(arguments.seed),
                             .note = warn};
  GrowingText shown;
  if (arguments.out.empty()) options.progress = [&](std::string_view added) { return shown.add(added); };
  const std::string text = generate(trained, arguments.prompt, options);
  if (arguments.out.empty()) {
    shown.end();
  } else {
    write_file(arguments.out, text);
  }
  return 0;
}

int predict_either(const PredictArguments& arguments) {
  if (arguments.continues) {
    if (!arguments.inputs.empty())
      throw user_error("there are files and --prompt; a text is continued from the prompt alone");
    return continue_prompt(arguments);
  }
  const bool stream = !arguments.topic.from.empty();
  if (stream != arguments.inputs.empty())
    throw user_error(
        "{}; give either files, as in telar predict {} FILE, the topic of a stream, --from TOPIC, or of a model of texts --prompt TEXT",
        stream ? "there are files and --from" : "there are no samples", arguments.trained);
  if (!stream && arguments.topic.accept_changed_data)
    throw user_error(
        "--accept-changed-data is for messages (--from), which have a schema; files are checked as they are");
  if (stream && arguments.best)
    throw user_error(
        "--best is for files; messages are scored with the newest parameters, or those of a checkpoint that is given as RUN");
  return stream ? predict_messages(arguments) : predict_inputs(arguments);
}

}  // namespace

void add_predict(Verb& program) {
  auto arguments = std::make_shared<PredictArguments>();
  PredictTopicRequest& topic = arguments->topic;
  Verb verb = program.subverb("predict", "Prints the predictions of a trained network for samples");
  verb.option("RUN", arguments->trained, "A run folder, or one of its checkpoints").required();
  verb.option(
      "INPUT", arguments->inputs,
      "JPEG, PNG, WebP, GIF, BMP or TIFF files, IDX images, .npy arrays; for a model trained on CSV, CSV tables without labels");
  add_overrides(verb, arguments->overrides);
  const Option from = verb.option(
      "--from", topic.from,
      "Instead of files: score the messages of this topic as they arrive, with the newest parameters of the run");
  verb.option("--out", arguments->out,
              "Write the table to this CSV file, or the bytes of a text to this file")
      .excludes(from)
      .check(wrong_with_output);
  verb.option(
          "--to", topic.to,
          "Write each result as JSON to this topic, which is created if it does not exist; without it, as CSV to standard output")
      .value_name("TOPIC")
      .needs(from);
  verb.option("--group", topic.group,
              "The consumer group whose committed offsets say which messages are scored (telar-RUN-TOPIC)")
      .needs(from);
  verb.option("--start", arguments->start, "Where a group that has no offsets yet begins")
      .one_of({"earliest", "latest"})
      .show_default()
      .needs(from);
  verb.option("--messages", topic.messages, "End after so many messages").not_negative().needs(from);
  verb.option("--end", arguments->end, "now: end when the messages that the topic has now are scored")
      .one_of({"never", "now"})
      .show_default()
      .needs(from);
  Option prompt = verb.option("--prompt", arguments->prompt, "Of a model of texts: continue this text");
  prompt.excludes(from);
  verb.option("--tokens", arguments->tokens, "The tokens that are added to the prompt")
      .show_default()
      .not_negative()
      .needs(prompt);
  verb.option("--temperature", arguments->temperature,
              "Below 1, likely tokens become likelier; 0: always the likeliest one")
      .show_default()
      .not_negative()
      .needs(prompt);
  verb.option("--seed", arguments->seed, "Of the choice of tokens")
      .show_default()
      .not_negative()
      .needs(prompt);
  verb.flag("--accept-changed-data", topic.accept_changed_data,
            "With --from: score although the schema or descriptor is not that of the training");
  verb.flag("--quiet", arguments->quiet, "Print only errors and results");
  verb.flag("--best", arguments->best,
            "Not for --from: use the checkpoint of the best epoch, not the newest");
  verb.flag("--all", arguments->all, "Include the probability of every class in the table").excludes(prompt);
  verb.footer(
      "Examples:\n"
      "  telar predict runs/fashion_mnist-1 /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz --out predictions.csv\n"
      "  telar predict runs/stream-1 --from events --to events.scored\n"
      "  telar predict runs/stream-1 --from events --start latest --end never\n"
      "  telar predict runs/gpt_text-1 --prompt \"It was\" --tokens 200 --temperature 0.8\n"
      "  telar predict runs/mlp-1 --from rows --to rows.scored --set data.brokers=localhost:9092 --set data.format=json\n"
      "Brokers and format of the messages are those of the run's job, or of --set data.KEY=VALUE (docs/stream.md). Messages\n"
      "need no label. Ctrl-C ends it when the results are stored; the same command continues behind them.");
  verb.action([arguments, prompt] {
    arguments->continues = prompt.given();
    return predict_either(*arguments);
  });
}

}  // namespace telar::cli
