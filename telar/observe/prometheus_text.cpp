#include "telar/observe/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>

namespace telar {

namespace {

std::string escaped_help(const std::string& help) {
  std::string text;
  for (const char c : help) text += c == '\\' ? "\\\\" : c == '\n' ? "\\n" : std::string(1, c);
  return text;
}

std::string prometheus_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

std::string prometheus_text(const std::vector<PrometheusMetric>& metrics) {
  std::string text;
  for (const PrometheusMetric& metric : metrics) {
    const char* kind = metric.kind == PrometheusMetric::Kind::counter ? "counter" : "gauge";
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n{} {}\n", metric.name, escaped_help(metric.help),
                        metric.name, kind, metric.name, prometheus_number(metric.value));
  }
  return text;
}

}  // namespace telar
