#include "telar/bench/row_limits.h"

#include <fmt/format.h>

#include "telar/core/error.h"

namespace telar::bench {

namespace {

std::string name_of(const Place& place) {
  return place.gpu ? fmt::format("cuda:{}", *place.gpu) : fmt::format("cpu:{}", place.threads);
}

}  // namespace

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
    if (std::string text = limits ? busy_text(*limits) : ""; !text.empty()) all.push_back(std::move(text));
  return all;
}

double RowLimits::milliseconds(const Place& place, RowPrecision precision, const Measured& measured) {
  if (!place.gpu) {
    if (!processors_.contains(place.threads))
      look_up<Limits>(processors_, place.threads, name_of(place),
                      [&] { return known_limits(place.threads); });
    const std::optional<Limits>& limits = processors_.at(place.threads);
    return limits ? limits->milliseconds(precision.dtype, measured.operations, measured.bytes) : 0;
  }
  if (!gpus_.contains(*place.gpu))
    look_up<GpuLimits>(gpus_, *place.gpu, name_of(place), [&] { return known_gpu_limits(*place.gpu); });
  const std::optional<GpuLimits>& limits = gpus_.at(*place.gpu);
  return limits ? limits->milliseconds(precision, measured.operations, measured.bytes) : 0;
}

void RowLimits::renew(const Place& place) {
  if (place.gpu) {
    look_up<GpuLimits>(gpus_, *place.gpu, name_of(place), [&] { return renewed_gpu_limits(*place.gpu); });
  } else {
    look_up<Limits>(processors_, place.threads, name_of(place),
                    [&] { return renewed_limits(place.threads); });
  }
}

template <typename Known>
void RowLimits::look_up(std::map<int, std::optional<Known>>& known, int number, const std::string& rows,
                        const std::function<Known()>& find) {
  try {
    known.insert_or_assign(number, find());
  } catch (const Error& error) {
    known.insert_or_assign(number, std::nullopt);
    remarks_.push_back(fmt::format("The rows of {} have no limit: {}.", rows, error.what()));
  }
}

}  // namespace telar::bench
