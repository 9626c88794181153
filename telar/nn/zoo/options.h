#pragma once

#include <string>
#include <vector>

#include "telar/graph/attributes.h"

namespace telar {

/// The options given to a model of the zoo, read with their kind and range checked. Every function throws Error (user)
/// naming model, option, what was given and what would be right.
class ZooOptions {
 public:
  /// Throws when one is given that is not among `known`.
  ZooOptions(std::string model, const Attributes& given, const std::vector<std::string>& known);

  int64_t integer(const std::string& name, int64_t otherwise, int64_t least) const;
  /// An integer that has no default.
  int64_t required_integer(const std::string& name, int64_t least) const;
  std::vector<int64_t> integers(const std::string& name, std::vector<int64_t> otherwise, int64_t least) const;
  /// At least 0 and below 1.
  double rate(const std::string& name, double otherwise) const;
  std::string choice(const std::string& name, const std::string& otherwise,
                     const std::vector<std::string>& choices) const;

 private:
  std::string model_;
  const Attributes& given_;
};

}  // namespace telar
