#pragma once

#include <nanobind/nanobind.h>

namespace telar::python {

/// The classes of the module telar._native. Each is described where it is bound.
void bind_group(nanobind::module_& module);
void bind_graph_builder(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_session(nanobind::module_& module);
void bind_run(nanobind::module_& module);

}  // namespace telar::python
