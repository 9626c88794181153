#pragma once

#include <string>

namespace telar {

/// The strategy that was probably meant by a word, such as "mirored" or another system's "ddp"; empty: none.
std::string strategy_like(const std::string& word);

}  // namespace telar
