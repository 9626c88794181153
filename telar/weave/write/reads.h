#pragma once

#include <functional>

#include "telar/weave/write/dialect.h"

namespace telar::weave {

/// Makes all processes wait before each call for which `reads` is true, and before each other call that reads
/// a file which the program also writes: rank 0 must finish a file before the others read it.
void write_reads(const Names& names, Edits& edits, Dialect& dialect,
                 const std::function<bool(const Node*)>& reads);

}  // namespace telar::weave
