#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "telar/observe/progress_text.h"

namespace telar {

/// How progress is shown.
enum class ProgressStyle : uint8_t {
  bar,    ///< a terminal: one line, rewritten ten times a second, and a line for each finished epoch
  lines,  ///< a file or pipe: a line for each finished epoch, and one every ten seconds
  quiet   ///< nothing
};

struct ProgressOptions {
  ProgressStyle style = ProgressStyle::lines;
  bool colour = false;
  std::function<int()> columns = [] { return 80; };  ///< width of the terminal, queried at each drawing
  std::string unit = "images";                       ///< what is counted: "12,345 images/s"
  std::function<double()> clock;                     ///< seconds; empty for the system's steady clock
};

/// Options that suit the file `descriptor` (1 or 2): a bar where can_redraw(), otherwise lines; colour where
/// can_colour() (telar/observe/terminal.h).
ProgressOptions progress_options(int descriptor, bool quiet);

/// State of an epoch. Loss and accuracy are means over the epoch's samples so far, or, of a stream, over its
/// last samples.
struct ProgressState {
  int64_t samples = 0;  ///< samples done in this epoch
  double loss = 0;
  std::optional<double> accuracy;
  std::optional<int64_t> behind = std::nullopt;  ///< samples of a stream that are waiting, if it is known
  std::optional<double> behind_seconds = std::nullopt;  ///< in which they would be used
  std::function<std::string()> more = {};  ///< further figures, asked when they are shown; may be empty
};

/// Results of an epoch.
struct EpochSummary {
  double loss = 0;
  std::optional<double> accuracy;
  std::optional<double> validation_loss;
  std::optional<double> validation_accuracy;
  std::optional<int64_t> behind = std::nullopt;         ///< as in ProgressState
  std::optional<double> behind_seconds = std::nullopt;  ///< the same
  std::string more = {};                                ///< further figures
  std::optional<double> lowered_rate = std::nullopt;    ///< the learning rate from here on, if it fell
};

/// Shows the progress of a training run on a stream. The terminal is unchanged at any moment (nothing is
/// hidden, no mode is set), so a killed run does no harm. The destructor ends an open line.
///
///     Progress progress(std::cerr, progress_options(2, quiet));
///     progress.begin_epoch(1, epochs, samples);
///     progress.update({done, loss, accuracy});  // at each step; costs one clock reading
///     progress.end_epoch({loss, accuracy, validation_loss, validation_accuracy});
class Progress {
 public:
  Progress(std::ostream& stream, ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `epoch` counts from 1. A resumed run has already done `samples_done` of the epoch's `samples`; the
  /// samples of each update() include them.
  void begin_epoch(int64_t epoch, int64_t epochs, int64_t samples, int64_t samples_done = 0);
  void update(const ProgressState& state);
  void end_epoch(const EpochSummary& summary);
  /// The same for work without epochs: `parts` returns the line, and is called when it is shown.
  void update(const std::function<std::vector<LinePart>()>& parts);
  /// Prints a separate line: "checkpoint written to …".
  void message(std::string_view text);

 private:
  bool is_due();
  double rate(int64_t run_samples) const;
  std::vector<LinePart> parts(const ProgressState& state) const;
  std::string bar_line(const ProgressState& state) const;
  void redraw(const std::string& line);
  void print_line(const std::string& line);
  std::string coloured(const std::string& text) const;

  std::ostream& stream_;
  ProgressOptions options_;
  int64_t epoch_ = 0;
  int64_t epochs_ = 0;
  int64_t samples_ = 0;           ///< of this epoch
  int64_t samples_before_ = 0;    ///< of this epoch, done by an earlier run
  int64_t finished_samples_ = 0;  ///< done by this run in finished epochs
  std::optional<double> run_start_;
  double epoch_start_ = 0;
  double last_shown_ = 0;
  bool line_open_ = false;
};

}  // namespace telar
