#pragma once

#include <vector>

#include "telar/weave/python/names.h"

namespace telar::weave {

/// Where a program reads a set in its order, which differs between processes if it holds strings.
struct SetOrder {
  const Node* set = nullptr;
  const Node* list = nullptr;  ///< `list(set)` or `tuple(set)`; null if the set itself is read
};

/// The places where the order of a set matters: not those that only count, sort or print it.
std::vector<SetOrder> read_set_orders(const Names& names);

}  // namespace telar::weave
