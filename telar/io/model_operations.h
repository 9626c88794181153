#pragma once

#include <string>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

/// Adds an operation of a model from outside to a graph: one of a forward pass, a loss, a metric or a running
/// statistic, by the name that it has in graphs ("conv2d"). False if there is none of that name.
///
/// The rules of operations (Op::infer) rely on the functions that build them. So this checks first what those
/// functions take for granted: number and element type of the inputs, type and range of the attributes.
/// Inputs are f32, or i32 for tokens, labels and sample ids. Attributes that the functions derive themselves
/// (the stream of a dropout) must be what they derive, if they are given. Throws Error (user), naming the
/// operation and the input or attribute.
bool add_model_operation(GraphBuilder& graph, const std::string& name, std::vector<ValueId> inputs,
                         const Attributes& attributes);

/// The names of these operations.
std::vector<std::string> model_operation_names();

}  // namespace telar
