#pragma once

#include <functional>

#include "telar/weave/dialect.h"

namespace telar::weave {

/// Prints, files, plots, progress bars and logs: on rank 0 alone. `communicates` says whether a call talks to the other
/// processes, so that all of them must make it; `handled`, whether it was written already.
void write_outputs(const Names& names, Edits& edits, Dialect& dialect,
                   const std::function<bool(const Node*)>& communicates,
                   const std::function<bool(const Node*)>& handled = {});

}  // namespace telar::weave
