#pragma once

#include <limits>
#include <string>
#include <vector>

#include "telar/train/job.h"
#include "telar/train/job_node.h"

namespace telar {

/// The valid values of a key, besides its type. Limits apply to each number of a list.
struct ValueRule {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;               ///< `least` itself is excluded
  bool below_most = false;                ///< `most` itself is excluded
  std::vector<std::string> choices = {};  ///< the valid texts, also for the items of a list; empty: any
};

/// Reads a value of its target's type. A list with one item may be written as that item. Throws Error (user)
/// with position, key, the value found, the valid values and, for a choice, the nearest one.
void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, int64_t& value);
void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, double& value);
void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, bool& value);
void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, std::string& value);
void read_value(const JobNode& node, const std::string& key, const ValueRule& rule,
                std::vector<int64_t>& value);
void read_value(const JobNode& node, const std::string& key, const ValueRule& rule,
                std::vector<double>& value);
void read_value(const JobNode& node, const std::string& key, const ValueRule& rule,
                std::vector<std::string>& value);
void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, SharesJob& value);

/// "an integer, at least 1": the valid values for a type and rule, for messages and documentation.
std::string value_kind(const ValueRule& rule, const int64_t& type);
std::string value_kind(const ValueRule& rule, const double& type);
std::string value_kind(const ValueRule& rule, const bool& type);
std::string value_kind(const ValueRule& rule, const std::string& type);
std::string value_kind(const ValueRule& rule, const std::vector<int64_t>& type);
std::string value_kind(const ValueRule& rule, const std::vector<double>& type);
std::string value_kind(const ValueRule& rule, const std::vector<std::string>& type);
std::string value_kind(const ValueRule& rule, const SharesJob& type);

/// A value as YAML on one line; it reads back as the same value.
std::string value_text(int64_t value);
std::string value_text(double value);
std::string value_text(bool value);
std::string value_text(const std::string& value);
std::string value_text(const std::vector<int64_t>& value);
std::string value_text(const std::vector<double>& value);
std::string value_text(const std::vector<std::string>& value);
std::string value_text(const SharesJob& value);
std::string value_text(const Attribute& value);

/// The value of a model's option; the model checks it. The form of the text determines its type: flag,
/// integer, real, text or list of integers. Throws Error (user) for anything else.
Attribute read_attribute(const JobNode& node, const std::string& key);

}  // namespace telar
