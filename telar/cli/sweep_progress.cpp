#include "telar/cli/sweep_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "telar/bench/report.h"
#include "telar/cli/table.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/observe/terminal.h"

namespace telar::cli {

namespace fs = std::filesystem;

SweepProgress::SweepProgress() : terminal_(can_redraw(STDERR_FILENO)) {}

void SweepProgress::began(const std::string& what) {
  what_ = what;
  if (terminal_) show("…", false);
}

void SweepProgress::progress(const bench::CurvePoint& newest) {
  if (!terminal_) return;
  std::string text = fmt::format("epoch {}, {} samples, {:.1f} s", newest.epoch,
                                 grouped(static_cast<int64_t>(newest.samples)), newest.seconds);
  if (newest.loss) text += fmt::format(", loss {:.4f}", *newest.loss);
  if (newest.accuracy) text += fmt::format(", accuracy {:.3f}", *newest.accuracy);
  show(text, false);
}

void SweepProgress::ended(const std::string& how) { show(how, true); }

void SweepProgress::show(const std::string& text, bool last) {
  constexpr const char* kEraseLine = "\r\033[K";
  std::cerr << (terminal_ ? kEraseLine : "") << what_ << ": " << text << (last ? "\n" : "") << std::flush;
}

fs::path experiment_folder(const std::string& given, const std::string& name) {
  require_local(given);
  fs::path folder = given;
  for (int number = 1; given.empty() && (folder.empty() || fs::exists(folder)); ++number)
    folder = fs::path("runs") / fmt::format("{}-{}", name, number);
  if (fs::exists(folder) && !fs::is_empty(folder)) {
    throw user_error(
        "{} is not empty; give another folder with --output, or omit --output for a new folder under runs/",
        folder.string());
  }
  return folder;
}

bench::SweepWatch watch_sweep(SweepProgress& progress, std::function<bool()> stop_requested,
                              const fs::path& folder) {
  bench::SweepWatch watch;
  watch.stop_requested = std::move(stop_requested);
  watch.began = [&progress](const std::string& what) { progress.began(what); };
  watch.progress = [&progress](const bench::CurvePoint& newest) { progress.progress(newest); };
  watch.ended = [&progress](const std::string& how) { progress.ended(how); };
  watch.measured = [folder](const bench::Result& result) {
    make_folder(folder);  // if nothing could be measured, no run has created it
    write_file(folder / "result.json", bench::json_text(result));
    write_file(folder / "report.html", bench::report_page(result));
  };
  return watch;
}

void publish_runs(const bench::Result& result, const ResultFiles& files, const fs::path& folder) {
  publish(result, files);
  if (fs::exists(folder / "result.json"))
    std::cout << fmt::format("The runs are in {0}, with result.json and the curves in report.html.\n",
                             folder.string());
}

}  // namespace telar::cli
