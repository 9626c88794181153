#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace telar {

/// A number that a Prometheus server reads.
struct PrometheusMetric {
  enum class Kind : uint8_t {
    counter,  ///< only grows, or begins again with the process
    gauge
  };
  std::string name;  ///< [a-z_]+
  std::string help;
  Kind kind = Kind::gauge;
  double value = 0;
};

/// Prometheus' text format, version 0.0.4: for each metric its help, its type, and a line with its value.
std::string prometheus_text(const std::vector<PrometheusMetric>& metrics);

}  // namespace telar
