#include <iostream>
#include <memory>

#include "telar/cli/options.h"
#include "telar/cli/verbs.h"
#include "telar/train/exported.h"

namespace telar::cli {

namespace {

struct ExportArguments {
  std::string trained;
  std::string file;
  bool best = false;
  bool quiet = false;
};

int export_run(const ExportArguments& arguments) {
  const auto say = [&](const std::string& text) {
    if (!arguments.quiet) std::cerr << text << std::endl;
  };
  const Trained trained = load_trained(arguments.trained, arguments.best, {"strategy.devices=cpu"},
                                       [&](const std::string& text) { say("warning: " + text); });
  export_model(trained, arguments.file);
  say(trained.checkpoint.string() + " is in " + arguments.file);
  return 0;
}

}  // namespace

void add_export(Verb& program) {
  auto arguments = std::make_shared<ExportArguments>();
  Verb verb = program.subverb("export", "Writes a trained network for other programs: ONNX or safetensors");
  verb.option("RUN", arguments->trained, "A run folder, or one of its checkpoints").required();
  verb.option("FILE", arguments->file, "What is written: NAME.onnx or NAME.safetensors").required();
  verb.flag("--best", arguments->best, "Use the checkpoint of the best epoch, not the newest");
  verb.flag("--quiet", arguments->quiet, "Print only errors");
  verb.footer(
      "Examples:\n"
      "  telar export runs/fashion_mnist-1 fashion.onnx\n"
      "  telar export runs/fashion_mnist-1 fashion.safetensors --best\n"
      "The network of an ONNX file normalises its input as in training, and gives what telar predict gives.");
  verb.action([arguments] { return export_run(*arguments); });
}

}  // namespace telar::cli
