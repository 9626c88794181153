#include "python/native/model.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "python/native/bindings.h"
#include "python/native/values.h"
#include "telar/core/error.h"
#include "telar/graph/remove_unused.h"
#include "telar/io/atomic_file.h"
#include "telar/io/model_file.h"
#include "telar/io/model_text.h"
#include "telar/io/onnx/onnx_file.h"
#include "telar/nn/initialise.h"

namespace telar::python {

namespace nb = nanobind;

namespace {

/// The numbers of an array for a parameter of this shape. Throws Error (user) if they do not fit.
std::vector<float> values_of(const std::string& parameter, const Shape& shape, const nb::handle& array) {
  const auto given = nb::cast<FloatArray>(array);
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < given.ndim(); ++axis) dims.push_back(static_cast<int64_t>(given.shape(axis)));
  if (Shape(dims) != shape)
    throw user_error("the values of '{}' have the shape {}, but the parameter has {}", parameter,
                     Shape(dims).str(), shape.str());
  const auto numbers = numbers_of(given);
  return {numbers.begin(), numbers.end()};
}

/// A parameter with initial values.
ParameterInfo parameter_of(const std::string& name, bool trainable, const nb::handle& array) {
  const auto given = nb::cast<FloatArray>(array);
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < given.ndim(); ++axis) dims.push_back(static_cast<int64_t>(given.shape(axis)));
  ParameterInfo parameter{.name = name, .shape = Shape(dims), .trainable = trainable, .initializer = {}};
  const auto values = std::make_shared<const std::vector<float>>(values_of(name, parameter.shape, array));
  parameter.initializer.kind = Initializer::Kind::given;
  parameter.initializer.give = [values](std::span<float> into) {
    std::copy(values->begin(), values->end(), into.begin());
  };
  return parameter;
}

/// A parameter as Python describes it: (name, role, momentum of a statistic, values).
void add_parameter(ModelGraphs& graphs, const nb::handle& described) {
  const auto fields = nb::cast<nb::tuple>(described);
  const auto name = nb::cast<std::string>(fields[0]);
  const auto role = nb::cast<std::string>(fields[1]);
  if (role == "statistic") graphs.running_statistics.push_back({name, nb::cast<double>(fields[2])});
  graphs.parameters.push_back(parameter_of(name, role == "trained", fields[3]));
}

/// The graphs as they are after writing and reading, which checks all of them.
ModelGraphs checked(const std::string& name, const ModelGraphs& graphs) {
  ModelText text{name, graphs, {}};
  for (const ParameterInfo& parameter : graphs.parameters) text.checksums[parameter.name] = "";
  ModelGraphs read = model_from_json(to_json(text), name).graphs;
  for (size_t p = 0; p < read.parameters.size(); ++p)
    read.parameters[p].initializer = graphs.parameters[p].initializer;
  return read;
}

std::unique_ptr<PythonModel> model_of(const std::string& name, const GraphBuilder& training,
                                      const GraphBuilder& evaluation, const GraphBuilder& prediction,
                                      const nb::list& parameters, const std::vector<std::string>& metrics) {
  ModelGraphs graphs{.training = remove_unused(training.graph()),
                     .evaluation = remove_unused(evaluation.graph()),
                     .prediction = remove_unused(prediction.graph()),
                     .metrics = metrics};
  for (const nb::handle parameter : parameters) add_parameter(graphs, parameter);
  return std::make_unique<PythonModel>(name, std::move(graphs));
}

std::unique_ptr<PythonModel> external_model(const std::string& name, nb::object function,
                                            const nb::list& parameters,
                                            const std::vector<int64_t>& prediction) {
  ExternalForm form{name, {}, Shape(prediction)};
  for (const nb::handle described : parameters) {
    const auto fields = nb::cast<nb::tuple>(described);
    form.parameters.push_back(
        parameter_of(nb::cast<std::string>(fields[0]), nb::cast<bool>(fields[1]), fields[2]));
  }
  return std::make_unique<PythonModel>(form, std::move(function));
}

/// An object of Python that any thread may destroy.
std::shared_ptr<nb::object> shared_object(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* last) {
            if (Py_IsInitialized() == 0) return;  // the interpreter has ended, and its objects with it
            const nb::gil_scoped_acquire python;
            delete last;
          }};
}

/// A view of memory that Python may use during a call.
nb::object view_of(std::span<float> numbers) {
  return nb::cast(nb::ndarray<nb::numpy, float>(numbers.data(), {numbers.size()}, nb::handle()),
                  nb::rv_policy::reference);
}

/// Python's state of a thread that is not one of Python's own, for as long as the thread lives. Without it,
/// each call would make a new state and delete it, with all that PyTorch keeps there.
class PythonThread {
 public:
  PythonThread() : foreign_(PyGILState_GetThisThreadState() == nullptr) {
    if (!foreign_) return;
    state_ = PyGILState_Ensure();
    saved_ = PyEval_SaveThread();
  }
  ~PythonThread() {
    if (!foreign_ || Py_IsInitialized() == 0) return;
    PyEval_RestoreThread(saved_);
    PyGILState_Release(state_);
  }
  PythonThread(const PythonThread&) = delete;
  PythonThread& operator=(const PythonThread&) = delete;

 private:
  bool foreign_;
  PyGILState_STATE state_ = {};
  PyThreadState* saved_ = nullptr;
};

void call_python(const nb::object& function, const ExternalCall& call) {
  thread_local const PythonThread thread;
  const nb::gil_scoped_acquire python;
  const char* mode = call.mode == ExternalMode::training     ? "training"
                     : call.mode == ExternalMode::evaluation ? "evaluation"
                                                             : "prediction";
  const auto rows = nb::ndarray<nb::numpy, const int32_t>(call.rows.data(), {call.rows.size()}, nb::handle());
  nb::list parameters;
  // Not read-only, because PyTorch has no tensors that are.
  for (const std::span<const float> values : call.parameters)
    parameters.append(view_of({const_cast<float*>(values.data()), values.size()}));
  nb::list gradients;
  for (const std::span<float> values : call.gradients) gradients.append(view_of(values));
  function(mode, nb::cast(rows, nb::rv_policy::reference), parameters, view_of(call.result), gradients);
}

nb::list parameters_of(const PythonModel& model) {
  nb::list parameters;
  for (const ParameterInfo& parameter : model.graphs().parameters)
    parameters.append(nb::make_tuple(parameter.name, nb::cast(parameter.shape.dims()), parameter.trainable));
  return parameters;
}

std::vector<std::string> model_inputs_of(const PythonModel& model) {
  std::vector<std::string> names;
  for (const Value& value : model.graphs().training.values())
    if (value.kind == ValueKind::input) names.push_back(value.name);
  return names;
}

/// Those that `values` gives by name; the others are those with which the model began.
GiveValues values_among(const nb::dict& values) {
  return [&values](const ParameterInfo& parameter, std::span<float> into) {
    if (!values.contains(parameter.name.c_str())) return initialise(parameter, 0, into);
    const auto given = values_of(parameter.name, parameter.shape, values[parameter.name.c_str()]);
    std::copy(given.begin(), given.end(), into.begin());
  };
}

}  // namespace

PythonModel::PythonModel(const std::string& path) : model_(read_model_file(path).model) {}

PythonModel::PythonModel(const std::string& name, ModelGraphs graphs) {
  auto kept = std::make_shared<const ModelGraphs>(checked(name, graphs));
  const Value& x = kept->prediction.value(kept->prediction.find(ValueKind::input, "x"));
  model_.name = name;
  model_.sample = Shape(std::vector<int64_t>(x.type.shape.begin() + 1, x.type.shape.end()));
  model_.input = x.type.dtype;
  model_.graphs = std::move(kept);
}

PythonModel::PythonModel(const ExternalForm& form, nb::object function) {
  external_ = std::make_shared<const ExternalModel>(
      form, [shared = shared_object(std::move(function))](const ExternalCall& call) {
        call_python(*shared, call);
      });
  model_ = external_->model();
}

void PythonModel::write(const std::string& path, const nb::dict& values) const {
  AtomicFile file(path);
  write_model_file(file.file(), model_.name, graphs(), values_among(values));
  file.commit();
}

void PythonModel::write_onnx(const std::string& path, const nb::dict& values) const {
  const GiveValues give = values_among(values);
  const auto by_name = [&](const std::string& name, std::span<float> into) {
    give(*std::ranges::find(graphs().parameters, name, &ParameterInfo::name), into);
  };
  AtomicFile file(path);
  telar::write_onnx(file.file(), graphs().prediction, by_name, {.name = model_.name});
  file.commit();
}

void bind_model(nb::module_& module) {
  nb::class_<PythonModel>(module, "Model", "A model: its graphs and the values of its parameters.")
      .def(nb::init<const std::string&>(), nb::arg("path"), "Reads a model file.")
      .def_static(
          "external", &external_model, nb::arg("name"), nb::arg("function"), nb::arg("parameters"),
          nb::arg("prediction"),
          "Whose loss, gradients and predictions a function computes: function(mode, samples, parameters, "
          "result, gradients). parameters: (name, trained, values); prediction: the shape for one sample.")
      .def_static("of_graphs", &model_of, nb::arg("name"), nb::arg("training"), nb::arg("evaluation"),
                  nb::arg("prediction"), nb::arg("parameters"), nb::arg("metrics"),
                  "Of three graphs. parameters: (name, 'trained', 'statistic' or 'fixed', momentum, values).")
      .def("write", &PythonModel::write, nb::arg("path"), nb::arg("values") = nb::dict(),
           "Writes a model file with these values by name; the others are those with which the model began.")
      .def("write_onnx", &PythonModel::write_onnx, nb::arg("path"), nb::arg("values") = nb::dict(),
           "The same as an ONNX file, of which the input x gives the prediction.")
      .def_prop_ro("name", [](const PythonModel& model) { return model.model().name; })
      .def_prop_ro("metrics", [](const PythonModel& model) { return model.graphs().metrics; })
      .def_prop_ro("inputs", &model_inputs_of,
                   "The names of the inputs of training, in the order in which the graph has them.")
      .def_prop_ro("parameters", &parameters_of, "(name, shape, whether it is trained) of each parameter.");
}

}  // namespace telar::python
