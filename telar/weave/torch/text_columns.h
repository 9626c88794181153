#pragma once

#include <optional>
#include <string_view>

#include "telar/weave/python/names.h"

namespace telar::weave {

/// How a tensor is arranged: the dimension of its columns, and the expression for their number.
struct Columns {
  int dimension = 0;
  const Node* size = nullptr;
};

/// How the tensor of a variable is arranged in columns: by `x.view(columns, -1)`, perhaps transposed,
/// perhaps in a function that is given the number of columns. Nothing if it is not known to be.
std::optional<Columns> columns_of(const Names& names, const Node* name);

/// Whether a subscript of such a tensor takes rows of all columns: `text[i:i + n]` of [rows, columns],
/// `text[:, i:i + n]` of [columns, rows].
bool takes_rows(const Names& names, const Node* slice, int dimension);

/// Whether a function (`get_batch(text, i)`) returns a tuple of such rows of its parameter.
bool returns_rows(const Names& names, const Node* function, std::string_view parameter, int dimension);

}  // namespace telar::weave
