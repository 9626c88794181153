#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "telar/bench/timing.h"

namespace telar::bench {

/// A timed operation, with its amount of work and its lower time limit.
struct Measured {
  Times times;
  double operations = 0;  ///< floating-point operations of one repetition; a multiply-add is two
  double bytes = 0;       ///< the minimum that it must read and write
  double limit_ms = 0;    ///< 0: unknown
  /// Faster than its limit by more than 3 %, even after both were measured again: one of the two is wrong.
  bool suspect = false;
  std::optional<double>
      joules;  ///< used by the whole machine for one repetition; empty if no meter can be read

  double operations_per_second() const { return 1e3 * operations / times.median(); }
  double bytes_per_second() const { return 1e3 * bytes / times.median(); }
  double of_limit() const { return limit_ms / times.median(); }
};

/// An additional figure of a row, in its own column.
struct Figure {
  std::string name;             ///< "load", "images per second"
  std::string unit;             ///< "ms"; empty for a plain number
  std::optional<double> value;  ///< empty: not measured
};

/// A row of a sweep. It contains a timed operation, further figures, or both; or the reason why it is
/// impossible here.
struct ResultRow {
  std::vector<std::string> setting;  ///< "2000", "f32", "cpu:1"
  std::optional<Measured> measured;
  std::string impossible;            ///< the reason, if nothing was measured
  std::vector<Figure> figures = {};  ///< with unique names; rows may have different ones
};

/// A line of a chart.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x and y, x ascending
};

struct Axis {
  std::string label;
  std::string unit;  ///< empty for a plain number
};

/// Something that happened, at a place of a chart's x axis.
struct ChartMark {
  size_t curve = 0;  ///< to which it happened
  double x = 0;
  std::string text;
};

struct Chart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Curve> curves;
  std::vector<ChartMark> marks = {};
};

/// What the figures of a result depend on besides the program.
struct Environment {
  std::vector<std::pair<std::string, std::string>> entries;  ///< "processor" and "AMD EPYC", …
};

/// The environment of this machine, this build and this moment.
Environment read_environment();

/// The result of an experiment.
struct Result {
  std::string experiment;             ///< "matmul"
  std::string title;                  ///< one line for the reader
  std::vector<std::string> settings;  ///< names of the settings: "side", "precision", "device"
  std::vector<ResultRow> rows;
  std::string energy_source;         ///< empty: not measured
  double others = 0;                 ///< mean number of processors that other processes used meanwhile
  std::vector<std::string> remarks;  ///< sentences
  Environment environment;
  std::string drawn = {};  ///< the figure to draw as bars; empty: the rate, or its fraction of the limit
  std::vector<Chart> charts = {};
};

/// The number of processors that other processes may use on a quiet machine, for background work of the
/// system.
inline constexpr double kQuiet = 0.1;

/// True if other processes used so much of the machine that the figures are unreliable.
bool was_busy(const Result& result);

/// The further figures of these rows without values, each once, in order of appearance.
std::vector<Figure> figure_columns(std::span<const ResultRow> rows);
/// A row's figure with that name; null if it has none.
const Figure* find_figure(const ResultRow& row, const std::string& name);

/// As one JSON object. The name of each figure includes its unit.
std::string json_text(const Result& result);
/// As CSV (RFC 4180): a header line, then one line per row.
std::string csv_text(const Result& result);

}  // namespace telar::bench
