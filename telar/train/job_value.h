#pragma once

#include <string>
#include <vector>

#include "telar/core/option.h"
#include "telar/train/job.h"
#include "telar/train/job_node.h"

namespace telar {

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

/// See value_kind() of the other types, core/option.h.
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

/// Reads a value of the option's type; see read_value().
Attribute read_option(const JobNode& node, const std::string& key, const Option& option);

/// The value of such an option as YAML on one line.
std::string option_text(const Attribute& value, const ValueRule& rule);

/// The value of a model's option; the model checks it. The form of the text determines its type: flag,
/// integer, real, text or list of integers. Throws Error (user) for anything else.
Attribute read_attribute(const JobNode& node, const std::string& key);

}  // namespace telar
