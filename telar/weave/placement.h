#pragma once

#include "telar/weave/syntax.h"

namespace telar::weave {

/// Throws Error (user), with the report of Python's compiler, for a `return` or `yield` outside of a function and a `break` or
/// `continue` outside of a loop: Python's parser, which makes the tree, lets them pass.
void check_placement(const Tree& tree);

}  // namespace telar::weave
