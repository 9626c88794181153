#pragma once

#include <functional>

#include "telar/weave/dialect.h"

namespace telar::weave {

/// Files that rank 0 has just written must be whole before the others read them: all processes meet before each call for which
/// `reads` holds, if there is one for which `saves` does.
void write_reads(const Names& names, Edits& edits, Dialect& dialect,
                 const std::function<bool(const Node*)>& saves,
                 const std::function<bool(const Node*)>& reads);

}  // namespace telar::weave
