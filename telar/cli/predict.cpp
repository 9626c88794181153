#include <algorithm>
#include <iostream>
#include <memory>

#include "telar/cli/options.h"
#include "telar/cli/verbs.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
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
};

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

std::string header(const Trained& trained, size_t width, bool all) {
  const bool classes = trained.spec.classes > 0;
  std::string line = classes ? "input,sample,class,probability" : "input,sample";
  for (size_t i = 0; i < width && (all || !classes); ++i) {
    line += "," +
            (classes ? cell(fmt::format("p({})", class_name(trained.spec, i))) : fmt::format("value_{}", i));
  }
  return line + "\n";
}

std::string row(const Trained& trained, std::span<const float> outputs, bool all) {
  std::string line;
  const bool classes = trained.spec.classes > 0;
  if (classes) {
    const auto best = std::max_element(outputs.begin(), outputs.end());
    const std::string name = class_name(trained.spec, static_cast<size_t>(best - outputs.begin()));
    line += fmt::format(",{},{:.6f}", cell(name), *best);
  }
  for (size_t i = 0; i < outputs.size() && (all || !classes); ++i) line += fmt::format(",{}", outputs[i]);
  return line + "\n";
}

int predict_inputs(const PredictArguments& arguments) {
  const auto warn = [](const std::string& text) { std::cerr << "warning: " << text << std::endl; };
  const Trained trained = load_trained(arguments.trained, arguments.best, arguments.overrides, warn);
  std::cerr << "checkpoint: " << trained.checkpoint.string() << std::endl;
  const auto width = static_cast<size_t>(trained.session->prediction_shape().elements());
  std::string table = header(trained, width, arguments.all);
  for (const std::string& input : arguments.inputs) {
    const std::vector<float> outputs =
        predict(trained, *open_inputs(trained, input), trained.spec.classes > 0);
    for (size_t sample = 0; sample < outputs.size() / width; ++sample) {
      table += fmt::format("{},{}{}", cell(input), sample,
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

}  // namespace

void add_predict(Verb& program) {
  auto arguments = std::make_shared<PredictArguments>();
  Verb verb = program.subverb("predict", "Prints the predictions of a trained network for samples");
  verb.option("RUN", arguments->trained, "A run folder, or one of its checkpoints").required();
  verb.option(
          "INPUT", arguments->inputs,
          "JPEG or PNG files, IDX images, .npy arrays; for a model trained on CSV, CSV tables without labels")
      .required();
  add_overrides(verb, arguments->overrides);
  verb.option("--out", arguments->out, "Write the table to this CSV file");
  verb.flag("--best", arguments->best, "Use the checkpoint of the best epoch, not the newest");
  verb.flag("--all", arguments->all, "Include the probability of every class");
  verb.footer(
      "Example:\n"
      "  telar predict runs/fashion_mnist-1 /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz --out predictions.csv");
  verb.action([arguments] { return predict_inputs(*arguments); });
}

}  // namespace telar::cli
