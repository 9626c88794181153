#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "telar/cli/options.h"
#include "telar/cli/verbs.h"
#include "telar/core/error.h"
#include "telar/data/source.h"
#include "telar/io/atomic_file.h"
#include "telar/observe/process.h"
#include "telar/train/figures_json.h"
#include "telar/train/pipeline.h"
#include "telar/train/trained.h"

namespace telar::cli {

namespace {

struct EvaluateArguments {
  std::string trained;
  std::string data;
  std::string labels;
  std::vector<std::string> overrides;
  std::string summary;
  bool best = false;
  bool quiet = false;
};

/// Puts --data and --labels in the place of the source's test samples.
void replace_data(DataJob& data, const EvaluateArguments& arguments) {
  if (arguments.data.empty()) return;
  const std::vector<std::string>& paths = source_type(data.source).test_paths;
  if (paths.empty()) throw user_error("the run's data are {}, so --data cannot replace them", data.source);
  data.options.set(paths[0], arguments.data);
  if (paths.size() > 1) {
    if (arguments.labels.empty()) throw user_error("--data for {} also needs --labels", data.source);
    data.options.set(paths[1], arguments.labels);
  }
  data.test = 0;
  if (data.splits_by_column()) data.split = "random";
  data.spread = false;
}

int evaluate_run(const EvaluateArguments& arguments) {
  const auto warn = [&](const std::string& text) {
    if (!arguments.quiet) std::cerr << "warning: " << text << std::endl;
  };
  Trained trained = load_trained(arguments.trained, arguments.best, arguments.overrides, warn);
  replace_data(trained.job.data, arguments);
  const DataJob& data = trained.job.data;
  const SampleChecks checks{.threads = available_threads(),
                            .watch =
                                [&](const std::string& progress) {
                                  if (!arguments.quiet) std::cerr << progress << std::endl;
                                  return true;
                                },
                            .warn = warn,
                            .decode = data.on_error == "skip"};
  DatasetPtr test = open_test_dataset(data, static_cast<uint64_t>(trained.job.training.seed), &checks);
  if (test == nullptr) {
    if (arguments.data.empty())
      throw user_error("the job of {} has no test samples; give some with --data",
                       trained.checkpoint.string());
    throw user_error(
        "{}: the run was trained on messages, so nothing says what this is; add --set data.test_source=csv, or another source of files",
        arguments.data);
  }
  test = with_classes_of(trained, std::move(test), warn);
  const std::vector<double> values = evaluate(trained, *test);
  const Figures figures = trained.figures();
  if (!arguments.summary.empty()) {
    nlohmann::ordered_json json;
    add_figures(json, "test_", figures, values);
    json["samples"] = test->size();
    json["checkpoint"] = trained.checkpoint.string();
    if (!trained.skipped.empty()) json["skipped"] = trained.skipped;
    write_file(arguments.summary, json.dump(2) + "\n");
  }
  if (!arguments.quiet) {
    std::cout << fmt::format("{}: {} on {} samples\n", trained.checkpoint.string(),
                             metrics_text(figures, values), test->size())
              << tables_text(figures, values, trained.spec.class_names);
  }
  return 0;
}

}  // namespace

void add_evaluate(Verb& program) {
  auto arguments = std::make_shared<EvaluateArguments>();
  Verb verb = program.subverb("evaluate", "Evaluates a trained network on test samples");
  verb.option("RUN", arguments->trained, "A run folder, or one of its checkpoints").required();
  verb.option("--data", arguments->data, "Other test samples, in the format of the job's data source");
  verb.option("--labels", arguments->labels, "Labels of these samples, if they are in a separate file (npy)");
  add_overrides(verb, arguments->overrides);
  verb.option("--summary", arguments->summary, "Write the result as JSON to this file");
  verb.flag("--best", arguments->best, "Use the checkpoint of the best epoch, not the newest");
  verb.flag("--quiet", arguments->quiet, "Print only errors");
  verb.footer(
      "Examples:\n"
      "  telar evaluate runs/fashion_mnist-1\n"
      "  telar evaluate runs/fashion_mnist-1 --best --summary result.json");
  verb.action([arguments] { return evaluate_run(*arguments); });
}

}  // namespace telar::cli
