#pragma once

#include <functional>

#include "telar/weave/write/dialect.h"

namespace telar::weave {

/// Restricts prints, files, plots, progress bars and logs to rank 0. `communicates`: whether a call exchanges
/// data with the other processes, so all of them must make it. `handled`: whether a call has already been
/// rewritten. Throws Refusal.
void write_outputs(const Names& names, Edits& edits, Dialect& dialect,
                   const std::function<bool(const Node*)>& communicates,
                   const std::function<bool(const Node*)>& handled = {});

}  // namespace telar::weave
