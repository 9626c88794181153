#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "telar/bench/timing.h"

namespace telar::bench {

/// Something that was timed, how much work it is, and what it cannot go below.
struct Measured {
  Times times;
  double operations = 0;  ///< floating-point operations of one repetition; a multiply-add is two
  double bytes = 0;       ///< that it must at least read and write
  double limit_ms = 0;    ///< 0: none known
  /// Faster than its limit by more than 3 %, and again when both were measured a second time: one of the two is wrong.
  bool suspect = false;
  std::optional<double> joules;  ///< of the whole machine, for one repetition; none where nothing can be read

  double operations_per_second() const { return 1e3 * operations / times.median(); }
  double bytes_per_second() const { return 1e3 * bytes / times.median(); }
  double of_limit() const { return limit_ms / times.median(); }
};

/// A further figure of a row, in a column of its own.
struct Figure {
  std::string name;             ///< "load", "images per second"
  std::string unit;             ///< "ms"; empty for a plain number
  std::optional<double> value;  ///< none: not measured
};

/// A row of a sweep: measured (one thing timed again and again, further figures, or both), or impossible here.
struct ResultRow {
  std::vector<std::string> setting;  ///< "2000", "f32", "cpu:1"
  std::optional<Measured> measured;
  std::string impossible;            ///< why, when nothing was measured
  std::vector<Figure> figures = {};  ///< no two of one name; rows may have different ones
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

struct Chart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Curve> curves;
};

/// What the figures of a result depend on beside the program.
struct Environment {
  std::vector<std::pair<std::string, std::string>> entries;  ///< "processor" and "AMD EPYC", …
};

/// Of this machine, this build and this moment.
Environment read_environment();

/// What an experiment found.
struct Result {
  std::string experiment;             ///< "matmul"
  std::string title;                  ///< a line for people
  std::vector<std::string> settings;  ///< names of the settings: "side", "precision", "device"
  std::vector<ResultRow> rows;
  std::string energy_source;         ///< empty: not measured
  double others = 0;                 ///< processors that others kept busy meanwhile, on average
  std::vector<std::string> remarks;  ///< sentences
  Environment environment;
  std::string drawn = {};  ///< the figure that is drawn as bars; empty: the rate, or its part of the limit
  std::vector<Chart> charts = {};
};

/// Processors that others may keep busy on a machine that counts as quiet: what a system does in the background.
inline constexpr double kQuiet = 0.1;

/// True when others kept so much of the machine busy that the figures are in doubt.
bool was_busy(const Result& result);

/// The further figures of these rows, each once, in the order in which they appear; without values.
std::vector<Figure> figure_columns(std::span<const ResultRow> rows);
/// A row's figure of that name; null when it has none.
const Figure* find_figure(const ResultRow& row, const std::string& name);

/// As one JSON object, with every figure and its unit in the name.
std::string json_text(const Result& result);
/// As CSV (RFC 4180): a line of names, then one for each row.
std::string csv_text(const Result& result);

}  // namespace telar::bench
