#pragma once

#include <limits>
#include <string>
#include <vector>

#include "telar/train/job.h"
#include "telar/train/job_node.h"

namespace telar {

/// What a key's value may be, besides its type. Limits hold for each number of a list.
struct ValueRule {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;               ///< `least` itself is not allowed
  bool below_most = false;                ///< `most` itself is not allowed
  std::vector<std::string> choices = {};  ///< texts, also those of a list: the only ones
};

/// Reads a value of the type of its target. Throws Error (user): where, key, what stands there, what would be right and,
/// for a choice, the nearest one. A list may be written as its single item.
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

/// "an integer, at least 1": what a value of this type and rule is, for messages and documentation.
std::string value_kind(const ValueRule& rule, const int64_t& type);
std::string value_kind(const ValueRule& rule, const double& type);
std::string value_kind(const ValueRule& rule, const bool& type);
std::string value_kind(const ValueRule& rule, const std::string& type);
std::string value_kind(const ValueRule& rule, const std::vector<int64_t>& type);
std::string value_kind(const ValueRule& rule, const std::vector<double>& type);
std::string value_kind(const ValueRule& rule, const std::vector<std::string>& type);
std::string value_kind(const ValueRule& rule, const SharesJob& type);

/// A value as YAML, on one line; read again it is the same value.
std::string value_text(int64_t value);
std::string value_text(double value);
std::string value_text(bool value);
std::string value_text(const std::string& value);
std::string value_text(const std::vector<int64_t>& value);
std::string value_text(const std::vector<double>& value);
std::string value_text(const std::vector<std::string>& value);
std::string value_text(const SharesJob& value);
std::string value_text(const Attribute& value);

/// The value of an option of a model, which checks it itself: flag, integer, real, text or list of integers by how it is
/// written. Throws Error (user) for anything else.
Attribute read_attribute(const JobNode& node, const std::string& key);

}  // namespace telar
