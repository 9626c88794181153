#include "telar/bench/row_limits.h"

#include <fmt/format.h>

#include "telar/core/error.h"

namespace telar::bench {

void RowLimits::set(Measured& measured, const Place& place, RowPrecision precision,
                    const std::function<Measured()>& again) {
  constexpr double kSuspect = 1.03;
  measured.limit_ms = milliseconds(place, precision, measured);
  if (measured.of_limit() <= kSuspect) return;
  renew(place);
  if (again) measured = again();
  measured.limit_ms = milliseconds(place, precision, measured);
  measured.suspect = measured.of_limit() > kSuspect;
}

std::vector<std::string> RowLimits::remarks() const {
  std::vector<std::string> all = remarks_;
  for (const auto& [threads, limits] : processors_)
    if (std::string text = busy_text(limits); !text.empty()) all.push_back(std::move(text));
  return all;
}

double RowLimits::milliseconds(const Place& place, RowPrecision precision, const Measured& measured) {
  if (!place.gpu) {
    if (!processors_.contains(place.threads)) processors_.emplace(place.threads, known_limits(place.threads));
    return processors_.at(place.threads).milliseconds(precision.dtype, measured.operations, measured.bytes);
  }
  if (!gpus_.contains(*place.gpu)) find_gpu(*place.gpu, known_gpu_limits);
  const std::optional<GpuLimits>& limits = gpus_.at(*place.gpu);
  return limits ? limits->milliseconds(precision, measured.operations, measured.bytes) : 0;
}

void RowLimits::renew(const Place& place) {
  if (place.gpu) {
    find_gpu(*place.gpu, renewed_gpu_limits);
  } else {
    processors_.insert_or_assign(place.threads, renewed_limits(place.threads));
  }
}

void RowLimits::find_gpu(int number, GpuLimits (*find)(int)) {
  try {
    gpus_.insert_or_assign(number, find(number));
  } catch (const Error& error) {
    gpus_.insert_or_assign(number, std::nullopt);
    remarks_.push_back(fmt::format("The rows of cuda:{} have no limit: {}.", number, error.what()));
  }
}

}  // namespace telar::bench
