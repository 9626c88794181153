#pragma once

#include <string>

#include "telar/data/division.h"
#include "telar/data/tables/table_rules.h"

namespace telar {

/// Of each row of a column that says how a table is divided, what the division depends on. `by` is group,
/// time (numbers or dates) or column (train, validation, test, and what they are often called). `kind`: of
/// the column, given by the job; empty: its cells tell. Throws Error (user), with the column's `place`, for a
/// missing cell, and for one that is no time or no part.
SplitKeys split_keys_of(SplitBy by, const std::string& kind, const ColumnCells& cells,
                        const std::string& place);

}  // namespace telar
