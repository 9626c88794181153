#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/native/bindings.h"
#include "python/native/values.h"
#include "telar/core/error.h"
#include "telar/graph/graph.h"
#include "telar/io/model_operations.h"

namespace telar::python {

namespace nb = nanobind;

namespace {

/// Adds an operation; the ids of its results.
std::vector<ValueId> add_operation(GraphBuilder& graph, const std::string& name,
                                   const std::vector<ValueId>& inputs, const nb::dict& attributes) {
  for (const ValueId id : inputs)
    if (id != kNoValue && (id < 0 || static_cast<size_t>(id) >= graph.graph().values().size()))
      throw user_error("{}: there is no value {}", name, id);
  if (!add_model_operation(graph, name, inputs, attributes_of(attributes)))
    throw user_error("there is no operation '{}'", name);
  return graph.graph().nodes().back().outputs;
}

TensorType type_of(const GraphBuilder& graph, ValueId id) {
  if (id < 0 || static_cast<size_t>(id) >= graph.graph().values().size())
    throw user_error("there is no value {}", id);
  return graph.type(id);
}

}  // namespace

void bind_graph_builder(nb::module_& module) {
  nb::class_<GraphBuilder>(module, "GraphBuilder", "Builds one graph of a model, operation by operation.")
      .def(nb::init<>())
      .def(
          "input",
          [](GraphBuilder& graph, const std::string& name, const std::string& dtype,
             const std::vector<int64_t>& shape, bool batched) {
            return graph.input(name, {dtype_of(dtype), Shape(shape)}, batched);
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("shape"), nb::arg("batched") = true,
          "Declares an input, f32 or i32; batched: axis 0 is the batch. Returns the value's id.")
      .def(
          "parameter",
          [](GraphBuilder& graph, const std::string& name, const std::vector<int64_t>& shape) {
            return graph.parameter(name, {DType::f32, Shape(shape)});
          },
          "Declares a parameter, f32.")
      .def(
          "statistic",
          [](GraphBuilder& graph, const std::string& name, const std::vector<int64_t>& shape) {
            return graph.gradient(name, {DType::f32, Shape(shape)});
          },
          "Declares the buffer to which the statistic of a batch is added, times the number of its samples.")
      .def("metric", &GraphBuilder::metric, nb::arg("name"), nb::arg("values") = 1,
           "Declares the buffer to which a metric's sum is added.")
      .def("add", &add_operation, nb::arg("name"), nb::arg("inputs"), nb::arg("attributes") = nb::dict(),
           "Adds an operation of telar/io/model_operations.h; returns the ids of its results. -1 is an input "
           "that is left out.")
      .def("is_integer",
           [](const GraphBuilder& graph, ValueId id) { return type_of(graph, id).dtype == DType::i32; })
      .def("shape", [](const GraphBuilder& graph, ValueId id) { return type_of(graph, id).shape.dims(); })
      .def("output", &GraphBuilder::output)
      .def_prop_rw("scope", &GraphBuilder::scope, &GraphBuilder::set_scope,
                   "The layer to which the next operations belong.")
      .def("__str__", [](const GraphBuilder& graph) { return graph.graph().str(); });
}

}  // namespace telar::python
