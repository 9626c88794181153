#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "telar/cli/experiment.h"
#include "telar/cli/options.h"
#include "telar/cli/verbs.h"
#include "telar/core/error.h"
#include "telar/observe/stop_request.h"
#include "telar/train/job_reader.h"
#include "telar/train/rate_search.h"

namespace telar::cli {

namespace {

struct FindRateArguments {
  std::string job;
  std::vector<std::string> overrides;
  RateSearchOptions search;
  ResultFiles files;
  bool quiet = false;
};

constexpr size_t kRows = 16;

std::string advice(const RateSearch& search) {
  if (search.end == RateSearch::End::stopped) return "The search was stopped: nothing is suggested.";
  const RatePoint& last = search.points.back();
  const std::string end =
      search.end == RateSearch::End::diverged ? fmt::format("; at {:.2g} it diverges", last.rate) : "";
  if (!search.found)
    return fmt::format(
        "The loss falls at none of these rates by more than it differs from batch to batch{}: check the data and the model, or search with more steps, a greater batch, or from a lower rate.",
        end);
  const FoundRates& found = *search.found;
  std::string text = fmt::format(
      "A good start: --set optimizer.learning_rate={:.2g}. The loss has made half of its fall at a learning rate of {:.2g}, and is lowest at {:.2g}{}.",
      found.suggested / search.scale, found.half, found.lowest, end);
  if (search.scale != 1) text += fmt::format(" schedule.scale makes {:.2g} of it.", found.suggested);
  return text;
}

bench::Result result_of(const RateSearch& search, const std::string& job) {
  bench::Result result;
  result.experiment = "find-rate";
  result.title =
      fmt::format("{}: the loss of {} steps while the learning rate grows", job, search.points.size());
  result.settings = {"learning rate"};
  result.drawn = "loss";
  const size_t count = search.points.size();
  for (size_t row = 0; row < std::min(kRows, count); ++row) {
    const RatePoint& point = search.points[(row + 1) * count / std::min(kRows, count) - 1];
    result.rows.push_back({{fmt::format("{:.2g}", point.rate)}, {}, {}, {{"loss", "", point.smoothed}}});
  }
  bench::Curve smoothed{"mean of the last steps", {}};
  bench::Curve steps{"each step", {}};
  for (const RatePoint& point : search.points) {
    smoothed.points.emplace_back(std::log10(point.rate), point.smoothed);
    steps.points.emplace_back(std::log10(point.rate), point.loss);
  }
  result.charts = {{"Training loss while the learning rate grows",
                    {"learning rate, as a power of 10", ""},
                    {"loss", ""},
                    {smoothed, steps}}};
  result.remarks = {advice(search)};
  result.environment = bench::read_environment();
  return result;
}

int find_rate(FindRateArguments arguments) {
  const StopRequest stop(kExperimentStops);
  RateSearchOptions& options = arguments.search;
  options.stop_requested = [&stop] { return stop.requested(); };
  options.say = [&](const std::string& text) {
    if (!arguments.quiet) std::cerr << text << std::endl;
  };
  options.warn = [&](const std::string& text) { options.say("warning: " + text); };
  options.watch = [&](const RatePoint& point, int64_t step) {
    if (step % std::max<int64_t>(1, options.steps / 10) == 0)
      options.say(fmt::format("step {} of {}: learning rate {:.2g}, loss {:.4f}", step, options.steps,
                              point.rate, point.smoothed));
  };
  const Job job = read_job(arguments.job, arguments.overrides);
  const RateSearch search = search_rate(job, options);
  if (!search.points.empty()) publish(result_of(search, arguments.job), arguments.files);
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

}  // namespace

void add_find_rate(Verb& program) {
  auto arguments = std::make_shared<FindRateArguments>();
  RateSearchOptions& search = arguments->search;
  Verb verb = program.subverb("find-rate", "Searches a learning rate for a job");
  verb.option("JOB", arguments->job, "A job file (docs/job.md)").required();
  verb.option("--from", search.from, "The learning rate of the first step (1e-06)");
  verb.option("--to", search.to, "That of the last step, unless the loss diverges before (10)");
  verb.option("--steps", search.steps,
              "Number of steps, each with a rate that is greater by the same factor (200)");
  add_overrides(verb, arguments->overrides);
  add_result_files(verb, arguments->files);
  verb.flag("--quiet", arguments->quiet, "Print only the result and errors");
  verb.footer(
      "Examples:\n  telar find-rate examples/fashion_mnist.yaml\n"
      "  telar find-rate job.yaml --set optimizer.name=adam --to 1 --steps 400 --html rates.html\n"
      "The job is trained from its beginning with its strategy and batch; its schedule does not count, and nothing is\nwritten but the files that are asked for.");
  verb.action([arguments] { return find_rate(*arguments); });
}

}  // namespace telar::cli
