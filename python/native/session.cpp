#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>

#include "python/native/bindings.h"
#include "python/native/epochs.h"
#include "python/native/group.h"
#include "python/native/python_session.h"
#include "python/native/values.h"
#include "telar/core/error.h"
#include "telar/strategy/strategy.h"

namespace telar::python {

namespace nb = nanobind;

namespace {

/// Parameters with options of their own: (names, options, by which their learning rate is multiplied).
using ParameterGroup = std::tuple<std::vector<std::string>, nb::dict, double>;

std::unique_ptr<PythonSession> make_session(const PythonModel& model, int64_t batch,
                                            const std::string& optimizer, const nb::dict& optimizer_options,
                                            const std::string& strategy, const nb::dict& strategy_options,
                                            double clip_norm, bool bf16, int threads, uint64_t seed,
                                            const std::vector<ParameterGroup>& groups, int servers,
                                            const PythonGroup* together,
                                            const std::vector<std::string>& devices) {
  StepOptions options;
  options.batch = batch;
  options.optimizer = optimizer_of(optimizer, attributes_of(optimizer_options));
  for (const auto& [names, own_options, rate] : groups) {
    const Optimizer own = optimizer_of(optimizer, attributes_of(own_options));
    for (const std::string& name : names) options.own_optimizers[name] = {own, rate};
  }
  if (clip_norm > 0) options.clip_norm = clip_norm;
  if (bf16) options.precision = Precision::bf16;
  return std::make_unique<PythonSession>(model, options, strategy_type(strategy),
                                         attributes_of(strategy_options), devices, threads, servers, seed,
                                         together == nullptr ? nullptr : together->shared());
}

/// Sums over the batch, and whether all numbers were finite.
std::pair<std::vector<double>, bool> train(PythonSession& session, const nb::dict& arrays,
                                           const IdArray& samples, float learning_rate, int64_t step,
                                           uint32_t epoch, int64_t divisor, int64_t all) {
  if (session.has_servers())
    throw user_error(
        "the strategy {} has workers of their own, which cannot make the steps of a loop in Python; write the model to a file, and train it with `telar train`",
        session.program().strategy);
  BatchView batch = session.batch_of(arrays, samples);
  batch.all = all;
  const StepInputs inputs{.learning_rate = learning_rate, .step = step, .epoch = epoch, .samples = divisor};
  const nb::gil_scoped_release others_may_run;
  StepResult result = session.session().train(batch, inputs);
  return {std::move(result.metrics), result.finite};
}

/// (operation, layer, seconds) of one training step on the first replica.
nb::list profile(PythonSession& session, const nb::dict& arrays, const IdArray& samples) {
  const BatchView batch = session.batch_of(arrays, samples);
  nb::list times;
  for (const OperationTime& time : session.session().profile(batch, {.learning_rate = 0, .step = 1}))
    times.append(nb::make_tuple(time.op, time.scope, time.seconds));
  return times;
}

std::vector<double> evaluate(PythonSession& session, const nb::dict& arrays,
                             const std::optional<IdArray>& samples, int64_t all) {
  BatchView batch = session.batch_of(arrays, samples);
  batch.all = all;
  const nb::gil_scoped_release others_may_run;
  return session.session().evaluate(batch);
}

nb::ndarray<nb::numpy, float> predict(PythonSession& session, const nb::dict& arrays,
                                      const std::optional<IdArray>& samples, int64_t all) {
  BatchView batch = session.batch_of(arrays, samples);
  batch.all = all;
  std::vector<float> prediction = [&] {
    const nb::gil_scoped_release others_may_run;
    return session.session().predict(batch);
  }();
  std::vector<int64_t> dims{batch.size};
  const Shape sample = session.session().prediction_shape();
  dims.insert(dims.end(), sample.begin(), sample.end());
  return to_numpy(std::move(prediction), Shape(dims));
}

nb::list inputs_of(const PythonSession& session) {
  nb::list inputs;
  for (const BatchTensor& input : session.inputs())
    inputs.append(
        nb::make_tuple(input.name, std::string(name_of(input.dtype)), nb::cast(input.shape.dims())));
  return inputs;
}

nb::list state_names_of(const PythonSession& session) {
  nb::list names;
  for (const StateName& name : session.session().state_names())
    names.append(nb::make_tuple(name.parameter, name.slot));
  return names;
}

nb::ndarray<nb::numpy, float> read_state(const PythonSession& session, const std::string& parameter,
                                         const std::string& slot) {
  const StateName name(parameter, slot);
  return to_numpy(session.session().read_state(name), session.session().state_shape(name));
}

bool is_divided(const PythonSession& session, const std::string& parameter, const std::string& slot) {
  return session.session().is_divided(StateName(parameter, slot));
}

void write_state(PythonSession& session, const std::string& parameter, const std::string& slot,
                 const FloatArray& values) {
  session.session().write_state(StateName(parameter, slot), numbers_of(values));
}

nb::ndarray<nb::numpy, float> read_gradient(const PythonSession& session, const std::string& parameter) {
  return to_numpy(session.session().read_gradient(parameter),
                  session.session().state_shape(StateName(parameter)));
}

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<PythonSession>(module, "Session", "Trains a model in this process by one of the strategies.")
      .def(
          nb::new_(&make_session), nb::arg("model"), nb::arg("batch"), nb::arg("optimizer"),
          nb::arg("optimizer_options"), nb::arg("strategy"), nb::arg("strategy_options"),
          nb::arg("clip_norm") = 0.0, nb::arg("bf16") = false, nb::arg("threads") = 0, nb::arg("seed") = 0,
          nb::arg("groups") = std::vector<ParameterGroup>{}, nb::arg("servers") = 1,
          nb::arg("together").none() = nb::none(), nb::arg("devices") = std::vector<std::string>{"cpu"},
          "threads: of all workers together; 0: those of this process. groups: parameters with options of their "
          "own, (names, options, by which their learning rate is multiplied). servers: of a strategy that has some. "
          "together: a Group, whose processes all make one. devices: names as in a job, one for all workers or one for each.")
      .def(
          "epoch", &make_epoch, nb::arg("steps"), nb::arg("next"), nb::arg("learning_rate"), nb::arg("epoch"),
          nb::arg("done"),
          "The workers of a strategy with servers, as threads, make the steps of an epoch. next(): the arrays of "
          "the next batch, by name; called by the workers. done(step, samples, sums): called for each step, in "
          "any order.")
      .def_prop_rw("updates", &PythonSession::updates, &PythonSession::set_updates,
                   "The number of the servers' updates, and of those before them.")
      .def(
          "train", &train, nb::arg("inputs"), nb::arg("samples"), nb::arg("learning_rate"), nb::arg("step"),
          nb::arg("epoch") = 0, nb::arg("divisor") = 0, nb::arg("all") = 0,
          "Makes one step. inputs: arrays by name; samples: the ids of the samples, i64; divisor: by what the "
          "gradient sum is divided, 0: the number of samples; all: the samples of all processes. Returns the sums of the metrics, and False if a "
          "number was not finite.")
      .def_prop_ro("repeats_samples", &PythonSession::repeats_samples,
                   "Whether some processes of a group compute the same samples.")
      .def(
          "place_in_batch",
          [](const PythonSession& session, const std::vector<int64_t>& sizes,
             const std::vector<std::string>& checksums) {
            const PlaceInBatch place = session.place_in_batch(sizes, checksums);
            return std::pair(place.before, place.all);
          },
          nb::arg("sizes"), nb::arg("checksums"),
          "The samples of a batch before this process's part, and those of all. Of the parts of all processes, in "
          "rank order.")
      .def("profile", &profile, nb::arg("inputs"), nb::arg("samples"),
           "(operation, layer, seconds) of each operation of a training step on the first worker.")
      .def(
          "evaluate", &evaluate, nb::arg("inputs"), nb::arg("samples") = std::nullopt, nb::arg("all") = 0,
          "The sums of the metrics in evaluation mode. samples: ids of the samples, by which random numbers are "
          "drawn; 0, 1, ... by default; all: the samples of all processes.")
      .def("predict", &predict, nb::arg("inputs"), nb::arg("samples") = std::nullopt, nb::arg("all") = 0,
           "The predictions in evaluation mode, a NumPy array.")
      .def("read_state", &read_state, nb::arg("parameter"), nb::arg("slot") = "")
      .def("is_divided", &is_divided, nb::arg("parameter"), nb::arg("slot") = "",
           "Whether a tensor is divided among the processes of a group, which then all call read_state.")
      .def("write_state", &write_state, nb::arg("parameter"), nb::arg("slot"), nb::arg("values"))
      .def("read_gradient", &read_gradient, "The sum of the last step's gradient over its samples.")
      .def_prop_ro("inputs", &inputs_of, "(name, element type, shape of a sample) of each input.")
      .def_prop_ro("state_names", &state_names_of, "(parameter, slot); the slot of a parameter itself is ''.")
      .def_prop_ro("metrics", [](const PythonSession& session) { return session.session().metric_names(); })
      .def_prop_ro("workers", [](const PythonSession& session) { return session.session().replicas(); });
}

}  // namespace telar::python
