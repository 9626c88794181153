#pragma once

#include "telar/weave/torch/writer.h"

namespace telar::weave {

/// Where a model must be wrapped that would be wrapped before `statement`: earlier, if the script keeps a
/// reference to it before (in a list, an attribute, a closure), because that reference would be the bare
/// model; later, if the script only then moves it to its device. `place`: the variable of the model. Throws
/// Refusal if there is no such statement.
const Node* wrapping_statement(const TorchWeaving& weaving, int place, const Node* statement);

/// Whether the wrapper has an attribute of this name that does what the model's does: `train`, `parameters`.
bool is_same_on_wrapper(std::string_view attribute);

/// Whether an attribute of a model is its forward function as a value: `compute = model.forward`.
bool is_forward_as_value(const Node* attribute);

}  // namespace telar::weave
