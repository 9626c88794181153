#pragma once

#include <string>
#include <vector>

#include "telar/core/attributes.h"

namespace telar {

/// The options given to a model of the zoo. The functions read an option and check its type and range. They
/// throw Error (user) with the model, the option, the given value and what would be right.
class ZooOptions {
 public:
  /// Throws when a given option is not among `known`.
  ZooOptions(std::string model, const Attributes& given, const std::vector<std::string>& known);

  static constexpr int64_t kMost = 1 << 30;  ///< of any integer
  static constexpr int64_t kMostLayers = 1024;

  int64_t integer(const std::string& name, int64_t otherwise, int64_t least, int64_t most = kMost) const;
  /// An integer without a default.
  int64_t required_integer(const std::string& name, int64_t least, int64_t most = kMost) const;
  /// At most kMostLayers integers, one for each layer.
  std::vector<int64_t> integers(const std::string& name, std::vector<int64_t> otherwise, int64_t least) const;
  /// A number of at least 0 and below 1.
  double rate(const std::string& name, double otherwise) const;
  std::string choice(const std::string& name, const std::string& otherwise,
                     const std::vector<std::string>& choices) const;

 private:
  std::string model_;
  const Attributes& given_;
};

}  // namespace telar
