#pragma once

#include "telar/weave/python/syntax.h"

namespace telar::weave {

/// Throws Error (user), with the message of Python's compiler, for a `return` or `yield` outside a function
/// and a `break` or `continue` outside a loop. Python's parser, which creates the tree, accepts them.
void check_placement(const Tree& tree);

}  // namespace telar::weave
