#include "telar/cli/weave_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "telar/core/error.h"
#include "telar/strategy/strategy.h"

namespace telar::cli {

namespace {

/// An integer or a text, as an option of a strategy has it.
Attribute value_of(const std::string& text) {
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure == std::errc() && end == text.data() + text.size()) return number;
  return text;
}

std::string python_value(const Attribute& value) {
  const auto* number = std::get_if<int64_t>(&value);
  return number != nullptr ? std::to_string(*number) : fmt::format("\"{}\"", std::get<std::string>(value));
}

}  // namespace

std::string strategy_dictionary(const std::string& given) {
  std::istringstream words(given);
  std::string name;
  std::getline(words, name, ',');
  const StrategyType& type = given.empty() ? data_parallel_type() : strategy_type(name);
  if (type.uses_servers)
    throw user_error(
        "--strategy: {} has servers, which a script of Python does not start; train with `telar train`",
        type.name);
  Attributes options;
  if (!type.count.empty()) options.set(type.count, completed(type.name, type.options, {}).at(type.count));
  for (std::string word; std::getline(words, word, ',');) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos)
      throw user_error("--strategy takes a name and its options, as in {},{}=4, not '{}'",
                       data_parallel_type().name, data_parallel_type().count, word);
    options.set(word.substr(0, equals), value_of(word.substr(equals + 1)));
  }
  make_strategy(type.name, options);  // checks them
  std::string text = fmt::format("{{\"strategy\": \"{}\"", type.name);
  for (const auto& [option, value] : options)
    text += fmt::format(", \"{}\": {}", option, python_value(value));
  return text + "}";
}

}  // namespace telar::cli
