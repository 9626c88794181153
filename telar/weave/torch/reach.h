#pragma once

#include <functional>
#include <string_view>

#include "telar/weave/python/names.h"

namespace telar::weave {

/// Whether a node, or a function of the program that it calls, contains a call for which `wanted` is true.
bool reaches(const Names& names, const Node* node, const std::function<bool(const Node*)>& wanted);

/// Whether a call of the function around `node` switches it off: `if optimizer is not None: …`, and the call
/// passes no optimizer, where None is the default, or passes None or False.
bool is_switched_off(const Names& names, const Node* node, const Node* call);

/// Whether a function assigns to a variable of this name.
bool assigns(const Node* function, std::string_view name);

}  // namespace telar::weave
