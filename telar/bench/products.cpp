#include "telar/bench/products.h"

#include <fmt/format.h>

#include <set>

#include "telar/bench/graph_run.h"
#include "telar/bench/machine_watch.h"
#include "telar/bench/row_limits.h"
#include "telar/core/error.h"
#include "telar/device/cpu/processor_support.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/matmul.h"
#include "telar/graph/ops/reduce.h"

namespace telar::bench {

namespace {

constexpr int64_t kImage = 128;
constexpr int64_t kChannels = 3;
constexpr int64_t kFilters = 32;
constexpr int64_t kFilter = 8;

/// A sweep's graph for one size, and its cost.
struct Work {
  Graph graph;
  double operations;
  double bytes;
};

Work matmul_work(int64_t side, DType dtype) {
  const auto n = static_cast<double>(side);
  return {matmul_graph(side, dtype), 2 * n * n * n, 3 * n * n * static_cast<double>(size_of(dtype))};
}

Work conv_work(int64_t images, DType dtype) {
  const auto count = static_cast<double>(images);
  const double side = kImage - kFilter + 1;
  const double outputs = count * kFilters * side * side;
  const double inputs = count * kChannels * kImage * kImage;
  const double multiply_adds = outputs * kChannels * kFilter * kFilter;
  // The result is written once, then read once for the sum.
  return {conv_graph(images, dtype), 2 * multiply_adds + outputs,
          (inputs + 2 * outputs) * static_cast<double>(size_of(dtype))};
}

/// Times the calls after a first one, which compiles kernels, and a warm-up of a tenth of a second: at least
/// `repetitions`, and for one second.
Times time_repetitions(int repetitions, GraphRun& run) {
  constexpr double kWarmUp = 0.1;
  constexpr double kSeconds = 1;
  const auto call = [&] {
    return time_calls(
               1, [] {}, [&] { run.run(); })
               .milliseconds.front() /
           1e3;
  };
  for (double total = call(); total < kWarmUp;) total += call();
  Times times;
  for (double total = 0; times.milliseconds.size() < static_cast<size_t>(repetitions) || total < kSeconds;) {
    const double seconds = call();
    total += seconds;
    times.milliseconds.push_back(1e3 * seconds);
  }
  return times;
}

class Sweep {
 public:
  Sweep(const SweepOptions& options, Work (*work)(int64_t, DType)) : options_(options), work_(work) {
    if (options.repetitions < 1) throw user_error("{} repetitions; give at least 1", options.repetitions);
    for (const int64_t size : options.sizes)
      if (size < 1 || size > 100'000) throw user_error("the size {}; give sizes from 1 to 100000", size);
    for (const std::string& device : options.devices) place_of(device);  // throws before anything is measured
  }

  void fill(Result& result) {
    for (const RowPrecision precision : options_.precisions) {
      for (const int64_t size : options_.sizes) {
        for (const std::string& device : options_.devices) {
          if (options_.stop_requested && options_.stop_requested()) {
            result.remarks.push_back(
                "The experiment was stopped before its end; only the rows measured until then are shown.");
            finish(result);
            return;
          }
          if (options_.say) options_.say(fmt::format("{} {} {}", size, precision.name(), device));
          result.rows.push_back(row(size, precision, device));
        }
      }
    }
    finish(result);
  }

 private:
  void finish(Result& result) const {
    watch_.finish(result);
    for (std::string& remark : limits_.remarks()) result.remarks.push_back(std::move(remark));
    for (const int number : measured_gpus_)
      if (std::string text = gpu_text(number); !text.empty()) result.remarks.push_back(std::move(text));
  }

  ResultRow row(int64_t size, RowPrecision precision, const std::string& device) {
    ResultRow row{{std::to_string(size), precision.name(), device}, std::nullopt, {}};
    const Place place = place_of(device);
    if (!place.impossible.empty()) {
      row.impossible = place.impossible;
    } else if (!place.gpu && precision.tf32) {
      row.impossible = "CPUs do not support TF32";
    } else if (!place.gpu && precision.dtype == DType::bf16 && !cpu::bf16_missing().empty()) {
      row.impossible = cpu::bf16_missing();
    } else if (!place.gpu) {
      const Work work = work_(size, precision.dtype);
      GraphRun run(work.graph, place.threads);
      row.measured = measure_beside_limit(work, precision, run, place);
    } else {
      measure_on_gpu(place, size, precision, row);
    }
    return row;
  }

  Measured measure(const Work& work, GraphRun& run) {
    Measured measured{{}, work.operations, work.bytes, 0, false, std::nullopt};
    const std::optional<double> before = watch_.energy().joules();
    measured.times = time_repetitions(options_.repetitions, run);
    if (before)
      measured.joules =
          (*watch_.energy().joules() - *before) / static_cast<double>(measured.times.milliseconds.size());
    return measured;
  }

  Measured measure_beside_limit(const Work& work, RowPrecision precision, GraphRun& run, const Place& place) {
    Measured measured = measure(work, run);
    limits_.set(measured, place, precision, [&] { return measure(work, run); });
    return measured;
  }

  /// Any error, from a missing module to insufficient memory, becomes the row's reason; the other rows are
  /// still measured.
  void measure_on_gpu(const Place& place, int64_t size, RowPrecision precision, ResultRow& row) {
    try {
      const Work work = work_(size, precision.dtype);
      GraphRun run(work.graph, make_cuda_device(*place.gpu), precision.tf32);
      row.measured = measure_beside_limit(work, precision, run, place);
      measured_gpus_.insert(*place.gpu);
    } catch (const Error& error) {
      row.impossible = error.what();
    }
  }

  const SweepOptions& options_;
  Work (*work_)(int64_t, DType);
  MachineWatch watch_;
  RowLimits limits_;
  std::set<int> measured_gpus_;  // by number
};

}  // namespace

Graph matmul_graph(int64_t side, DType dtype) {
  GraphBuilder builder;
  const TensorType type{dtype, Shape({side, side})};
  builder.output("y", matmul(builder, builder.input("a", type, false), builder.input("b", type, false)));
  return builder.build();
}

Graph conv_graph(int64_t images, DType dtype) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {dtype, Shape({images, kChannels, kImage, kImage})}, true);
  const ValueId w = builder.input("w", {dtype, Shape({kFilters, kChannels, kFilter, kFilter})}, false);
  builder.output("y", reduce_sum(builder, conv2d(builder, x, w, kNoValue, {}), {}));
  return builder.build();
}

Result measure_matmul(const SweepOptions& options) {
  Result result{"matmul", "Products of square matrices", {"side", "precision", "device"}, {}, {}, 0, {}, {}};
  Sweep(options, matmul_work).fill(result);
  return result;
}

Result measure_conv(const SweepOptions& options) {
  Result result{"conv",
                "Convolutions of images of 128×128×3 with 32 filters of 8×8, then the sum",
                {"images", "precision", "device"},
                {},
                {},
                0,
                {},
                {}};
  Sweep(options, conv_work).fill(result);
  return result;
}

}  // namespace telar::bench
