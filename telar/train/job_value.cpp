#include "telar/train/job_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "telar/core/error.h"
#include "telar/core/suggest.h"

namespace telar {

namespace {

/// Whether the node's text is a number, and one that T can hold.
template <typename T>
std::errc read_number(const JobNode& node, T& value) {
  if (node.kind != JobNode::Kind::scalar || node.quoted || node.text.empty())
    return std::errc::invalid_argument;
  const char* end = node.text.data() + node.text.size();
  const char* begin = node.text.data() + (node.text.front() == '+' ? 1 : 0);
  const auto [stop, code] = std::from_chars(begin, end, value);
  return stop == end ? code : std::errc::invalid_argument;
}

template <typename T>
std::optional<T> parse_number(const JobNode& node) {
  T value{};
  return read_number(node, value) == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<bool> parse_flag(const JobNode& node) {
  if (node.kind != JobNode::Kind::scalar || node.quoted) return std::nullopt;
  for (const char* word : {"true", "True", "yes", "on"}) {
    if (node.text == word) return true;
  }
  for (const char* word : {"false", "False", "no", "off"}) {
    if (node.text == word) return false;
  }
  return std::nullopt;
}

template <typename T>
Error wrong(const JobNode& node, const std::string& key, const ValueRule& rule, const T& type) {
  std::string hint;
  if (node.kind == JobNode::Kind::scalar && !rule.choices.empty()) {
    const std::string near = nearest(node.text, rule.choices);
    if (!near.empty()) hint = fmt::format("; did you mean '{}'?", near);
  }
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    T number{};
    const bool outside = read_number(node, number) == std::errc::result_out_of_range;
    if (std::is_floating_point_v<T> && (outside || !fits_f32(static_cast<double>(number)))) {
      hint = kFitsF32;
    } else if (outside) {
      hint = ", that 64 bits can hold";
    }
  }
  return user_error("{}: {} is {}; it must be {}{}", node.where, key, node.described(),
                    value_kind(rule, type), hint);
}

/// The number or text of this node, if the rule allows it.
template <typename T>
std::optional<T> parse_single(const JobNode& node, const ValueRule& rule) {
  const auto parsed = parse_number<T>(node);
  return parsed && rule.allows(static_cast<double>(*parsed)) ? parsed : std::nullopt;
}

template <>
std::optional<std::string> parse_single<std::string>(const JobNode& node, const ValueRule& rule) {
  const bool whole = node.text.find('\0') == std::string::npos;  // a file's name would end there
  if (node.kind != JobNode::Kind::scalar || !rule.allows(node.text) || !whole) return std::nullopt;
  return node.text;
}

template <typename T>
void read_single(const JobNode& node, const std::string& key, const ValueRule& rule, T& value) {
  auto parsed = parse_single<T>(node, rule);
  if (!parsed) throw wrong(node, key, rule, value);
  value = std::move(*parsed);
}

template <typename T>
void read_list(const JobNode& node, const std::string& key, const ValueRule& rule, std::vector<T>& value) {
  std::vector<T> list;
  if (node.kind == JobNode::Kind::list) {
    for (const JobNode& item : node.items) read_single(item, key, rule, list.emplace_back());
  } else {
    auto single = parse_single<T>(node, rule);
    if (!single) throw wrong(node, key, rule, value);
    list.push_back(std::move(*single));
  }
  value = std::move(list);
}

/// The text between the braces of `{offsets: [3, 5]}`, `{messages: 7}` or `{timestamp: 2026-11-24T18:00Z}`.
std::string form_of(const JobNode& node, const std::string& key, const ValueRule& rule) {
  const bool known =
      node.entries.size() == 1 && std::ranges::find(rule.forms, node.entries.front().key) != rule.forms.end();
  if (!known) throw wrong(node, key, rule, std::string());
  const auto& [name, where, number] = node.entries.front();
  if (std::ranges::find(rule.text_forms, name) != rule.text_forms.end()) {
    std::string text;
    read_single(number, key + "." + name, {}, text);
    return fmt::format("{}: {}", name, text);
  }
  if (number.kind != JobNode::Kind::list) {
    int64_t value = 0;
    read_value(number, key + "." + name, {.least = 0}, value);
    return fmt::format("{}: {}", name, value);
  }
  std::vector<int64_t> values;
  read_value(number, key + "." + name, {.least = 0}, values);
  return fmt::format("{}: {}", name, value_text(values));
}

/// The entries of `{a: x, b: y}`.
std::vector<std::string> group_of(const JobNode& node, const std::string& key) {
  if (node.kind != JobNode::Kind::map)
    throw user_error("{}: {} is {}; it must be a group of texts, as in {{a: x, b: y}}", node.where, key,
                     node.described());
  std::vector<std::string> entries;
  for (const JobEntry& entry : node.entries) {
    std::string text;
    read_value(entry.value, key + "." + entry.key, {}, text);
    entries.push_back(entry.key + ": " + text);
  }
  return entries;
}

template <typename T>
std::string list_text(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(value_text(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, int64_t& value) {
  read_single(node, key, rule, value);
}

void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, double& value) {
  read_single(node, key, rule, value);
}

void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, bool& value) {
  const auto parsed = parse_flag(node);
  if (!parsed) throw wrong(node, key, rule, value);
  value = *parsed;
}

void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, std::string& value) {
  if (node.kind == JobNode::Kind::map && !rule.forms.empty()) {
    value = form_of(node, key, rule);
  } else {
    read_single(node, key, rule, value);
  }
}

void read_value(const JobNode& node, const std::string& key, const ValueRule& rule,
                std::vector<int64_t>& value) {
  read_list(node, key, rule, value);
}

void read_value(const JobNode& node, const std::string& key, const ValueRule& rule,
                std::vector<double>& value) {
  read_list(node, key, rule, value);
}

void read_value(const JobNode& node, const std::string& key, const ValueRule& rule,
                std::vector<std::string>& value) {
  if (rule.group) {
    value = group_of(node, key);
  } else {
    read_list(node, key, rule, value);
  }
}

void read_value(const JobNode& node, const std::string& key, const ValueRule& rule, SharesJob& value) {
  if (node.kind == JobNode::Kind::list && !node.items.empty()) {
    value.mode = "list";
    read_list(node, key, {.least = 0}, value.weights);
    return;
  }
  if (node.kind != JobNode::Kind::scalar ||
      (node.text != "auto" && node.text != "equal" && node.text != "measured")) {
    throw wrong(node, key, rule, value);
  }
  value = {node.text, {}};
}

std::string value_kind(const ValueRule& /*rule*/, const SharesJob& /*type*/) {
  return "auto, equal, measured, or a list of numbers, one for each replica";
}

std::string value_text(int64_t value) { return fmt::format("{}", value); }
std::string value_text(double value) { return fmt::format("{}", value); }
std::string value_text(bool value) { return value ? "true" : "false"; }

std::string value_text(const std::string& value) {
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  const bool plain = !value.empty() && value.find_first_not_of(kPlain) == std::string::npos &&
                     ((value[0] | 0x20) >= 'a' && (value[0] | 0x20) <= 'z');
  JobNode node;
  node.kind = JobNode::Kind::scalar;
  node.text = value;
  const bool word = plain && !parse_flag(node) && value != "null" && value != "Null" && value != "NULL";
  if (word) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string value_text(const std::vector<int64_t>& value) { return list_text(value); }
std::string value_text(const std::vector<double>& value) { return list_text(value); }
std::string value_text(const std::vector<std::string>& value) { return list_text(value); }
std::string value_text(const SharesJob& value) {
  return value.mode == "list" ? list_text(value.weights) : value.mode;
}
std::string value_text(const Attribute& value) {
  return std::visit([](const auto& held) { return value_text(held); }, value);
}

std::string option_text(const Attribute& value, const ValueRule& rule) {
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr && !rule.forms.empty() && text->find(": ") != std::string::npos)
    return "{" + *text + "}";
  if (!rule.group) return value_text(value);
  std::vector<std::string> entries;
  for (const std::string& entry : std::get<std::vector<std::string>>(value)) {
    const size_t colon = entry.find(": ");
    entries.push_back(value_text(entry.substr(0, colon)) + ": " + value_text(entry.substr(colon + 2)));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

Attribute read_option(const JobNode& node, const std::string& key, const Option& option) {
  Attribute value = option.fallback;
  std::visit([&](auto& held) { read_value(node, key, option.rule, held); }, value);
  const auto* list = std::get_if<std::vector<int64_t>>(&value);
  if (list == nullptr || (value == option.fallback && !option.required)) return value;
  if (list->empty() || (option.most_items > 0 && list->size() > option.most_items)) {
    throw user_error("{}: {} has {} numbers; it must have 1 to {}", node.where, key, list->size(),
                     option.most_items);
  }
  return value;
}

Attribute read_attribute(const JobNode& node, const std::string& key) {
  if (node.kind == JobNode::Kind::list) {
    std::vector<int64_t> list;
    read_value(node, key, {}, list);
    return list;
  }
  if (node.kind != JobNode::Kind::scalar) {
    throw user_error("{}: {} is {}; it must be a number, a word, true or false, or a list of integers",
                     node.where, key, node.described());
  }
  if (const auto flag = parse_flag(node)) return *flag;
  if (const auto integer = parse_number<int64_t>(node)) return *integer;
  if (const auto real = parse_number<double>(node)) return *real;
  return node.text;
}

}  // namespace telar
