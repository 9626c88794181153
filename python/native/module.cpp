#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "python/native/bindings.h"
#include "python/native/values.h"
#include "telar/core/error.h"
#include "telar/core/version.h"
#include "telar/strategy/strategy.h"

namespace nb = nanobind;

// NOLINTNEXTLINE(readability-named-parameter): nanobind's own
NB_MODULE(_native, module) {
  // What lives until Python ends, such as a Step of a script, is no news for its user, and would hide an
  // error before it.
  nb::set_leak_warnings(false);
  module.doc() = "The engine of telar. The package telar is the interface to it.";
  nb::exception<telar::Error>(module, "Error", PyExc_RuntimeError);
  module.def("version", &telar::version);
  module.def(
      "strategies", [] { return telar::strategy_names(); }, "The names of the strategies.");
  module.def(
      "strategy_options",
      [](const std::string& name) {
        std::vector<std::string> names;
        for (const telar::Option& option : telar::strategy_type(name).options) names.push_back(option.name);
        return names;
      },
      "The names of a strategy's options.");
  module.def(
      "shares_batches",
      [](const std::string& name) { return !usual_workers(telar::strategy_type(name)).of_all_processes; },
      "Whether each worker of a strategy computes whole models, of its share of a batch.");
  module.def(
      "uses_servers", [](const std::string& name) { return telar::strategy_type(name).uses_servers; },
      "Whether workers exchange through parameter servers.");
  module.def(
      "workers",
      [](const std::string& name, const nb::dict& options) {
        return telar::make_strategy(name, telar::python::attributes_of(options)).workers().count;
      },
      "The number of workers of a strategy with these options.");
  module.def(
      "parts",
      [](const std::string& name, const nb::dict& options, int64_t processes) {
        const telar::Workers workers =
            telar::make_strategy(name, telar::python::attributes_of(options)).workers();
        return workers.of_all_processes ? std::min(workers.shares, processes) : processes;
      },
      "The number of different parts into which the processes of a group divide a batch.");
  module.def(
      "trains_alone",
      [](const std::string& name, const nb::dict& options) {
        return telar::make_strategy(name, telar::python::attributes_of(options)).workers().states > 1;
      },
      "Whether each worker of a strategy has parameters and an optimizer of its own.");
  telar::python::bind_group(module);
  telar::python::bind_graph_builder(module);
  telar::python::bind_model(module);
  telar::python::bind_session(module);
  telar::python::bind_run(module);
}
