#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>

#include "telar/cli/options.h"
#include "telar/cli/table.h"
#include "telar/cli/verbs.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/device/device.h"
#include "telar/io/disk.h"
#include "telar/nn/dot.h"
#include "telar/nn/summary.h"
#include "telar/nn/zoo.h"
#include "telar/strategy/link_bytes.h"
#include "telar/strategy/placement.h"
#include "telar/strategy/strategy.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_workers.h"
#include "telar/train/spread_data.h"

namespace telar::cli {

namespace {

struct ShowArguments {
  std::string what;
  std::vector<std::string> overrides;
  std::vector<int64_t> sample;
  int processes = 1;
  int64_t classes = 0;
  bool graph = false;
  bool dot = false;
  bool placement = false;
};

/// The default sample shape of a model of the zoo.
std::string sample_of(const std::string& model) {
  if (model == "alexnet" || model.starts_with("resnet")) return "[3, 224, 224]";
  if (model == "text_classifier") return "[128]";
  return model == "lstm" ? "[28, 28]" : "[1, 28, 28]";
}

Job job_of(const ShowArguments& arguments) {
  if (std::filesystem::is_regular_file(arguments.what)) return read_job(arguments.what, arguments.overrides);
  if (std::filesystem::is_regular_file(arguments.what + "/job.yaml"))
    throw user_error("{0} is the folder of a run; give its job: {0}/job.yaml", arguments.what);
  const std::vector<std::string> models = model_names();
  if (std::find(models.begin(), models.end(), arguments.what) == models.end()) {
    throw user_error("'{}' is neither a job file nor a model; the models are {}", arguments.what,
                     fmt::join(models, ", "));
  }
  if (arguments.what == "gpt_small") {
    if (arguments.classes > 0 || arguments.sample.size() > 1)
      throw user_error(
          "gpt_small takes texts, whose tokens are its classes; give --sample LENGTH alone, or a job file");
    return parse_job(fmt::format("name: {0}\nmodel: {0}\ndata: {{source: text, path: text, length: {1}}}\n",
                                 arguments.what, arguments.sample.empty() ? 128 : arguments.sample[0]),
                     arguments.what, arguments.overrides);
  }
  const bool large = sample_of(arguments.what).starts_with("[3");
  const std::string sample = arguments.sample.empty()
                                 ? sample_of(arguments.what)
                                 : fmt::format("[{}]", fmt::join(arguments.sample, ", "));
  const int64_t classes = arguments.classes > 0 ? arguments.classes : large ? 1000 : 10;
  return parse_job(
      fmt::format("name: {0}\nmodel: {0}\ndata: {{source: synthetic, shape: {1}, classes: {2}{3}}}\n",
                  arguments.what, sample, classes,
                  arguments.what == "text_classifier" ? ", vocabulary: 10000" : ""),
      arguments.what, arguments.overrides);
}

std::string layer_table(const Summary& summary) {
  const auto number = [](int64_t count) { return count == 0 ? std::string() : grouped(count); };
  std::vector<std::vector<std::string>> rows = {
      {"layer", "operation", "output", "parameters", "multiply-adds"}};
  for (const SummaryRow& row : summary.rows) {
    rows.push_back(
        {row.layer, row.operation, row.output.str(), number(row.parameters), number(row.multiply_adds)});
  }
  rows.push_back({"", "", "", grouped(summary.trained), grouped(summary.multiply_adds)});
  return table_text(rows, 3);
}

/// `frozen`: values that are not trained.
std::string memory_text(const Program& program, const Job& job, int64_t frozen) {
  int64_t parameters = 0;
  for (const ParameterInfo& parameter : program.parameters) parameters += 4 * parameter.shape.elements();
  const int64_t moving = parameters - 4 * frozen;
  const auto slots = static_cast<int64_t>(state_slots(program.update).size());
  const int64_t replicas = program.micro_batches > 0 ? 1 : program.mesh.of_process();
  const int64_t states = workers_of(job.strategy).states;
  const int64_t batch = job.training.batch;
  const bool staged = program.micro_batches > 0;
  const int64_t parts = staged ? program.micro_batches * shares_of(program) : 1;
  int64_t results = 0;
  for (int64_t w = 0; w < (staged ? program.mesh.workers() : 1); ++w)
    results += peak_result_bytes(program.worker(w).gradient.with_batch((batch + parts - 1) / parts));
  const auto bytes = [](int64_t count) { return bytes_text(static_cast<uint64_t>(count)); };
  return fmt::format(
      "memory: parameters {}, gradients {}, optimizer state {}; values of a {} at most {} (batch {})\n",
      bytes(parameters * states), bytes(moving * replicas), bytes(moving * slots * states),
      staged ? "micro-batch" : "step", bytes(results), batch);
}

/// "2 replicas", "2 pipelines of 4 stages, 16 micro-batches"
std::string workers_text(const Program& program) {
  const auto counted = [](int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  if (program.micro_batches == 0) return counted(program.mesh.workers(), "replica");
  const int64_t stages = program.mesh.size(kStageAxis);
  const int64_t pipelines = program.mesh.workers() / stages;
  return fmt::format("{}{}, {} micro-batches",
                     pipelines == 1 ? "" : fmt::format("{} pipelines of ", pipelines),
                     counted(stages, "stage"), program.micro_batches);
}

std::string placement_text(const Program& program) {
  std::vector<std::vector<std::string>> rows = {{"server", "variable", "shape", "bytes"}};
  Placement placement;
  const StoreProgram& store = only_store(program);
  for (size_t s = 0; s < store.servers.size(); ++s) {
    const std::vector<Piece>& pieces = store.servers[s].pieces;
    placement.push_back(pieces);
    for (const Piece& piece : pieces) {
      rows.push_back(
          {std::to_string(s), piece.name(), piece.piece_shape().str(), grouped(placed_bytes({piece}))});
    }
    rows.push_back({std::to_string(s), "all", "", grouped(placed_bytes(pieces))});
  }
  return table_text(rows, 3) +
         fmt::format("imbalance: {:.3f} (bytes of the fullest server divided by the mean; 1 is perfect)\n",
                     imbalance(placement));
}

/// What processes send each other in a step of each phase: on every link, or the most if there are many.
std::string links_text(const Program& program) {
  std::string text;
  const WorkerProgram& kind = program.kinds.front();
  for (size_t phase = 0; phase < phases_of(kind); ++phase) {
    if (phase + 1 < phases_of(kind) && kind.later[phase].after == 0) continue;  // it has no step
    constexpr int64_t kFew = 8;
    const auto links = bytes_on_each_link(program, phase);
    if (links.empty()) continue;
    std::vector<std::vector<std::string>> rows = {{"from process", "to process", "bytes"}};
    std::map<int64_t, double> out;
    double most = 0;
    for (const auto& [link, bytes] : links) {
      rows.push_back(
          {fmt::format("{}", link.first), fmt::format("{}", link.second), grouped(std::llround(bytes))});
      out[link.first] += bytes;
      most = std::max(most, bytes);
    }
    double all = 0;
    for (const auto& [process, bytes] : out) all = std::max(all, bytes);
    const std::string table =
        program.mesh.processes() <= kFew
            ? table_text(rows, 0)
            : fmt::format("{} from one process to another, at most, and {} from a process to all\n",
                          grouped(std::llround(most)), grouped(std::llround(all)));
    const ScheduledAction* periodic = nullptr;
    for (const ScheduledAction& scheduled : schedule_in(kind, phase))
      if (scheduled.every > 1) periodic = &scheduled;
    text += fmt::format("\nbytes sent in a step{}{}:\n{}",
                        phase == 0 ? "" : fmt::format(" after step {}", kind.later[phase - 1].after),
                        periodic == nullptr ? "" : fmt::format(", once in {} steps", periodic->every), table);
  }
  return text;
}

int show(const ShowArguments& arguments) {
  if (int{arguments.dot} + int{arguments.graph} + int{arguments.placement} > 1)
    throw user_error("--dot, --graph and --placement print different things; give one of them");
  if (arguments.dot && arguments.processes > 1)
    throw user_error(
        "--dot prints the model, which is the same in any number of processes; leave out --processes, or give --graph");
  Job job = job_of(arguments);
  settle_workers(job, job_workers(job, arguments.processes));
  const SampleSpec spec = spec_of_samples(job);
  const Model model = job_model(job, spec);
  if (arguments.dot) {
    std::cout << to_dot(forward_graph(model, Mode::evaluation, 1));
    return 0;
  }
  const bool alone = arguments.processes == 1;
  const Program program =
      alone ? job_program(job, spec, nullptr, arguments.graph ? Costs::measured : Costs::estimated)
            : job_program(job, spec, arguments.processes);
  if (arguments.placement) {
    if (program.stores.empty()) {
      throw user_error(
          "strategy '{}' has no parameter servers; choose one of {} (--set strategy.name=downpour)",
          program.strategy,
          one_of(strategy_names([](const StrategyType& type) { return type.uses_servers; })));
    }
    std::cout << placement_text(program);
    return 0;
  }
  if (arguments.graph) {
    std::cout << program.str();
    return 0;
  }
  std::cout << fmt::format("{}: {} for samples {}, {}\n\n", job.name.empty() ? arguments.what : job.name,
                           model.name, spec.features.str(),
                           spec.classes > 0 ? fmt::format("{} classes", spec.classes) : "regression");
  const Summary summary = summarise(model);
  std::cout << layer_table(summary) << "\n";
  if (summary.frozen > 0) std::cout << fmt::format("frozen: {} values\n", grouped(summary.frozen));
  std::cout << memory_text(program, job, summary.frozen);
  if (!program.stores.empty()) {
    std::cout << fmt::format("strategy: {}, {} workers, {} parameter servers\n", program.strategy,
                             workers_of(job.strategy).count, only_store(program).servers.size());
    return 0;
  }
  std::cout << fmt::format("strategy: {}, {}{}\n", program.strategy, workers_text(program),
                           alone ? "" : fmt::format(" in {} processes", arguments.processes));
  std::cout << links_text(program);
  return 0;
}

}  // namespace

void add_show(Verb& program) {
  auto arguments = std::make_shared<ShowArguments>();
  Verb verb = program.subverb("show", "Shows a model's layers, shapes, parameters, multiply-adds and memory");
  verb.option("WHAT", arguments->what,
              fmt::format("A job file, or a model: {}", fmt::join(model_names(), ", ")))
      .required();
  add_overrides(verb, arguments->overrides);
  verb.option("--sample", arguments->sample, "Shape of a sample for a model, as in 3,224,224")
      .comma_separated();
  verb.option("--classes", arguments->classes, "Number of classes for a model");
  verb.option("--processes", arguments->processes,
              "Show the program of so many processes (mpirun -n), and what they send each other in a step")
      .between(1, 1024);
  verb.flag("--graph", arguments->graph, "Print the program that runs: every operation of each replica");
  verb.flag("--placement", arguments->placement, "Print which parameter server holds which variable");
  verb.flag("--dot", arguments->dot,
            "Print the forward graph for Graphviz: telar show mlp --dot | dot -Tsvg");
  verb.footer(
      "Examples:\n"
      "  telar show resnet34\n"
      "  telar show resnet18 --sample 3,32,32 --classes 10 --set model.options.stem=3x3\n"
      "  telar show examples/fashion_mnist.yaml --graph\n"
      "  telar show resnet34 --placement --set strategy.name=downpour --set strategy.servers=3");
  verb.action_of_each_process([arguments] { return show(*arguments); });
}

}  // namespace telar::cli
