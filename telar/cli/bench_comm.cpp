#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "telar/bench/comm.h"
#include "telar/bench/workloads.h"
#include "telar/cli/bench.h"
#include "telar/cli/table.h"
#include "telar/cli/together.h"
#include "telar/io/atomic_file.h"
#include "telar/observe/hardware.h"

namespace telar::cli {

namespace {

using bench::CommFigure;
using bench::CommFigures;
using bench::StepFigure;

struct CommArguments {
  int64_t megabytes = 64;
  bench::CommOptions options;
  std::string json;
};

std::string times_text(const bench::Times& times) {
  return fmt::format("{:.2f} ({:.2f}–{:.2f})", times.median(), times.min(), times.max());
}

std::vector<std::string> row_of(const CommFigure& figure, const std::string& by) {
  const double gigabytes = figure.moved_bytes / 1e9;
  const bool limited = figure.limit_ms > 0;
  return {figure.name,
          by,
          times_text(figure.times),
          gigabytes > 0 ? fmt::format("{:.3f}", gigabytes) : "",
          gigabytes > 0 ? fmt::format("{:.1f}", gigabytes / figure.times.median() * 1e3) : "",
          limited ? fmt::format("{:.2f}", figure.limit_ms) : "",
          limited ? fmt::format("{:.2f}", figure.limit_ms / figure.times.median()) : ""};
}

std::string percent(double part) { return fmt::format("{:.2f} %", 100 * part); }

std::string text_of(const CommFigures& figures, const CommArguments& arguments, int processes) {
  const std::string threads = fmt::format("{} threads", arguments.options.replicas);
  const std::string many = fmt::format("{} processes", processes);
  std::vector<std::vector<std::string>> rows = {{fmt::format("{} MiB of gradients", arguments.megabytes),
                                                 "by", "ms", "GB moved", "GB/s", "limit ms", "of it"}};
  for (const CommFigure& figure : figures.memory) rows.push_back(row_of(figure, threads));
  rows.push_back(row_of(figures.reduce_scatter, threads));
  rows.push_back(row_of(figures.all_reduce, threads));
  for (const CommFigure& figure : figures.processes) rows.push_back(row_of(figure, many));
  std::string text = table_text(rows, 2);
  if (!figures.processes.empty()) {
    const double library = figures.processes[0].times.median();
    text += fmt::format(
        "\nMPI_Allreduce between {} takes {:.1f} times as long as our all-reduce between {}, {:.1f} times as "
        "our "
        "reduce-scatter, and {:.2f} times as ours between {}.\n",
        many, library / figures.all_reduce.times.median(), threads,
        library / figures.reduce_scatter.times.median(), library / figures.processes[1].times.median(), many);
  }
  rows = {
      {fmt::format("steps of {}", arguments.options.workload), "ms", "in backward", "exposed", "waiting"}};
  for (const StepFigure& figure : figures.steps) {
    rows.push_back({figure.name, times_text(figure.times), percent(figure.parts.within_gradient),
                    percent(figure.parts.exposed), percent(figure.parts.waiting)});
  }
  return text + "\n" + table_text(rows, 1);
}

nlohmann::ordered_json json_of(const bench::Times& times) {
  return {{"median_ms", times.median()},
          {"min_ms", times.min()},
          {"max_ms", times.max()},
          {"repetitions", times.milliseconds.size()}};
}

nlohmann::ordered_json json_of(const CommFigure& figure) {
  nlohmann::ordered_json json = json_of(figure.times);
  if (figure.moved_bytes > 0) json["moved_bytes"] = figure.moved_bytes;
  if (figure.limit_ms > 0) json["limit_ms"] = figure.limit_ms;
  return json;
}

nlohmann::ordered_json json_of(const StepFigure& figure) {
  nlohmann::ordered_json json = json_of(figure.times);
  json["within_gradient"] = figure.parts.within_gradient;
  json["exposed"] = figure.parts.exposed;
  json["waiting"] = figure.parts.waiting;
  return json;
}

nlohmann::ordered_json json_of(const CommFigures& figures, const CommArguments& arguments, int processes) {
  nlohmann::ordered_json json = {{"bytes", arguments.options.bytes},
                                 {"replicas", arguments.options.replicas},
                                 {"processes", processes},
                                 {"cpu", read_cpu().model},
                                 {"memory_sum", json_of(figures.memory[0])},
                                 {"memory_sum_for_all", json_of(figures.memory[1])},
                                 {"reduce_scatter", json_of(figures.reduce_scatter)},
                                 {"all_reduce", json_of(figures.all_reduce)}};
  if (!figures.processes.empty()) {
    json["mpi_allreduce"] = json_of(figures.processes[0]);
    json["all_reduce_between_processes"] = json_of(figures.processes[1]);
  }
  json["workload"] = arguments.options.workload;
  json["step"] = json_of(figures.steps[0]);
  if (figures.steps.size() > 1) json["step_between_processes"] = json_of(figures.steps[1]);
  return json;
}

int bench_comm(const CommArguments& arguments, Processes* processes) {
  const CommFigures figures = bench::measure_communication(arguments.options, processes);
  if (processes != nullptr && processes->rank() > 0) return 0;
  const int count = processes == nullptr ? 1 : processes->size();
  std::cout << text_of(figures, arguments, count) << std::flush;
  if (!arguments.json.empty()) write_file(arguments.json, json_of(figures, arguments, count).dump(2) + "\n");
  return 0;
}

int bench_comm(CommArguments arguments) {
  arguments.options.bytes = static_cast<size_t>(arguments.megabytes) << 20;
  const std::unique_ptr<Processes> processes = join_together();
  return run_together(processes.get(), [&] { return bench_comm(arguments, processes.get()); });
}

}  // namespace

void add_bench_comm(CLI::App& bench, Action& action) {
  auto arguments = std::make_shared<CommArguments>();
  CLI::App* verb =
      bench.add_subcommand("comm", "Communication between replicas, and between processes under mpirun");
  verb->add_option("--mb", arguments->megabytes, "MiB of gradients on each replica (64)")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  verb->add_option("--replicas", arguments->options.replicas,
                   "Replicas of this process, of one thread each (2)");
  verb->add_option("--seconds", arguments->options.seconds, "Each figure is measured for so long (1)");
  verb->add_option(
      "--workload", arguments->options.workload,
      fmt::format("Whose training steps are looked at: {}", fmt::join(bench::workload_names(), ", ")));
  verb->add_option("--json", arguments->json, "Write the figures to this file");
  verb->footer(
      "Examples:\n"
      "  telar bench comm\n"
      "  mpirun -n 2 telar bench comm --json comm.json\n"
      "The limit of a sum is the bytes that it must read and write over the bandwidth at which the same "
      "threads add rows of\n"
      "their own, with no word to each other. Of a step: what was spent on communication between the "
      "operations of the\n"
      "backward pass; after it (exposed), by the replica that waits least; and by the others, waiting for "
      "that one.");
  verb->callback([arguments, &action] { action = [arguments] { return bench_comm(*arguments); }; });
}

}  // namespace telar::cli
