#include "telar/observe/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ostream>

#include "telar/observe/progress_text.h"
#include "telar/observe/terminal.h"

namespace telar {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kLineSeconds = 10;
constexpr int kNoLimit = 1000;
constexpr int kNarrowestBar = 10;
constexpr int kWidestBar = 40;
constexpr std::string_view kStartOfEmptyLine = "\r\x1b[K";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kPlain = "\x1b[0m";

int terminal_columns(int descriptor) {
  struct winsize size = {};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// "1,234 behind (2.1 s)".
}  // namespace

ProgressOptions progress_options(int descriptor, bool quiet) {
  ProgressOptions options;
  options.style = quiet                    ? ProgressStyle::quiet
                  : can_redraw(descriptor) ? ProgressStyle::bar
                                           : ProgressStyle::lines;
  options.colour = can_colour(descriptor);
  options.columns = [descriptor] { return terminal_columns(descriptor); };
  return options;
}

Progress::Progress(std::ostream& stream, ProgressOptions options)
    : stream_(stream), options_(std::move(options)) {
  if (!options_.clock) options_.clock = steady_seconds;
}

Progress::~Progress() {
  if (line_open_) stream_ << "\n" << std::flush;
}

void Progress::begin_epoch(int64_t epoch, int64_t epochs, int64_t samples, int64_t samples_done) {
  epoch_ = epoch;
  epochs_ = epochs;
  samples_ = samples;
  samples_before_ = samples_done;
  epoch_start_ = options_.clock();
  if (!run_start_) run_start_ = epoch_start_;
  last_shown_ = epoch_start_;
}

bool Progress::is_due() {
  if (options_.style == ProgressStyle::quiet) return false;
  const double time = options_.clock();
  if (time - last_shown_ < (options_.style == ProgressStyle::bar ? kRedrawSeconds : kLineSeconds))
    return false;
  last_shown_ = time;
  return true;
}

void Progress::update(const ProgressState& state) {
  if (!is_due()) return;
  if (options_.style != ProgressStyle::bar) return print_line(fit_line(parts(state), kNoLimit));
  redraw(bar_line(state));
}

void Progress::update(const std::function<std::vector<LinePart>()>& parts) {
  if (!is_due()) return;
  if (options_.style != ProgressStyle::bar) return print_line(fit_line(parts(), kNoLimit));
  redraw(fit_line(parts(), options_.columns() - 1));
}

void Progress::redraw(const std::string& line) {
  stream_ << kStartOfEmptyLine << line << std::flush;
  line_open_ = true;
}

void Progress::end_epoch(const EpochSummary& summary) {
  const double seconds = options_.clock() - epoch_start_;
  const int64_t samples = samples_ - samples_before_;
  finished_samples_ += samples;
  if (options_.style == ProgressStyle::quiet) return;
  std::string line =
      coloured(fmt::format("epoch {}/{}", epoch_, epochs_)) + fmt::format("  loss {:.4f}", summary.loss);
  if (summary.accuracy) line += fmt::format("  accuracy {:.4f}", *summary.accuracy);
  if (summary.validation_loss) line += fmt::format("  validation loss {:.4f}", *summary.validation_loss);
  if (summary.validation_accuracy)
    line += fmt::format("  validation accuracy {:.4f}", *summary.validation_accuracy);
  if (seconds > 0) {
    line += fmt::format("  {} {}/s", grouped(std::llround(static_cast<double>(samples) / seconds)),
                        options_.unit);
  }
  if (summary.behind) line += "  " + behind_text(*summary.behind, summary.behind_seconds);
  if (!summary.more.empty()) line += "  " + summary.more;
  if (summary.lowered_rate) line += fmt::format("  learning rate lowered to {:.3g}", *summary.lowered_rate);
  print_line(line + fmt::format("  {:.1f} s", seconds));
}

void Progress::message(std::string_view text) {
  if (options_.style != ProgressStyle::quiet) print_line(std::string(text));
}

/// Samples per second since the start of the run, including validation and checkpoints; determines the
/// remaining time.
double Progress::rate(int64_t run_samples) const {
  const double seconds = options_.clock() - run_start_.value_or(0);
  return seconds > 0 ? static_cast<double>(run_samples) / seconds : 0;
}

std::vector<LinePart> Progress::parts(const ProgressState& state) const {
  const int64_t here = state.samples - samples_before_;
  const double epoch_seconds = options_.clock() - epoch_start_;
  const double run_rate = rate(finished_samples_ + here);
  const int64_t remaining = samples_ - state.samples + (epochs_ - epoch_) * samples_;
  std::vector<LinePart> parts = {{fmt::format("epoch {}/{}", epoch_, epochs_), 0},
                                 {fmt::format("{:3}%", samples_ > 0 ? state.samples * 100 / samples_ : 0), 1},
                                 {fmt::format("loss {:.4f}", state.loss), 0}};
  if (state.accuracy) parts.push_back({fmt::format("accuracy {:.4f}", *state.accuracy), 2});
  if (epoch_seconds > 0) {
    const auto per_second = std::llround(static_cast<double>(here) / epoch_seconds);
    parts.push_back({fmt::format("{} {}/s", grouped(per_second), options_.unit), 4});
  }
  if (state.behind) parts.push_back({behind_text(*state.behind, state.behind_seconds), 2});
  const std::string more = state.more ? state.more() : std::string();
  if (!more.empty()) parts.push_back({more, 3});
  if (run_rate > 0) {
    parts.push_back({duration_text(static_cast<double>(remaining) / run_rate) + " left", 3});
  }
  return parts;
}

std::string Progress::bar_line(const ProgressState& state) const {
  // The last column stays free because some terminals wrap as soon as it is written.
  const int width = options_.columns() - 1;
  std::string line = fit_line(parts(state), width);
  const int room = std::min(width - static_cast<int>(line.size()) - 2, kWidestBar);
  if (room < kNarrowestBar || samples_ <= 0) return line;
  const double fraction = static_cast<double>(state.samples) / static_cast<double>(samples_);
  return coloured(bar_text(fraction, room)) + "  " + line;
}

void Progress::print_line(const std::string& line) {
  if (line_open_) stream_ << kStartOfEmptyLine;
  line_open_ = false;
  stream_ << line << "\n" << std::flush;
}

std::string Progress::coloured(const std::string& text) const {
  return options_.colour ? fmt::format("{}{}{}", kGreen, text, kPlain) : text;
}

}  // namespace telar
