#include "telar/train/job_model_file.h"

#include <fmt/format.h>

#include "telar/core/error.h"
#include "telar/io/model_file.h"
#include "telar/observe/process.h"
#include "telar/train/job_model.h"

namespace telar {

namespace {

std::string form_text(const TensorType& type) {
  const std::vector<int64_t> sample(type.shape.begin() + 1, type.shape.end());
  return fmt::format("{} {}", name_of(type.dtype), Shape(sample).str());
}

TensorType batch_of(DType dtype, const Shape& sample, int64_t batch) {
  std::vector<int64_t> dims{batch};
  dims.insert(dims.end(), sample.begin(), sample.end());
  return {dtype, Shape(std::move(dims))};
}

/// What the samples of a job have: "x" and "label".
TensorType form_of_input(const std::string& name, const SampleSpec& spec, int64_t batch) {
  if (name == "x") return batch_of(spec.dtype, spec.features, batch);
  return batch_of(spec.label_dtype(), spec.labels, batch);
}

/// Refuses inputs that samples of a job do not have, or have in another form.
void require_inputs_of_job(const std::string& file, const Graph& graph, const SampleSpec& spec) {
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::input || value.name == "sample" || value.name == "random") continue;
    if (value.name != "x" && value.name != "label")
      throw user_error(
          "{} has the input '{}'; the samples of a job are 'x' and 'label', so train this model from a program",
          file, value.name);
    const TensorType given = form_of_input(value.name, spec, graph.batch());
    if (value.type != given)
      throw user_error("{} takes '{}' of {} for each sample, but the data have {}", file, value.name,
                       form_text(value.type), form_text(given));
  }
}

/// The value of which this is a view.
ValueId viewed(const Graph& graph, ValueId id) {
  while (graph.value(id).kind == ValueKind::result &&
         graph.nodes()[static_cast<size_t>(graph.value(id).node)].op->is_view())
    id = graph.nodes()[static_cast<size_t>(graph.value(id).node)].inputs[0];
  return id;
}

/// Kernels trust labels, so they must be those of the samples, and all of their classes must be known.
void require_known_labels(const std::string& file, const Graph& graph, const SampleSpec& spec) {
  for (const Node& node : graph.nodes()) {
    const int64_t known = node.op->label_count(graph.input_types(node));
    if (known == 0) continue;
    const Value& label = graph.value(viewed(graph, node.inputs[1]));
    if (label.name != "label" || label.kind != ValueKind::input)
      throw user_error("{}: the labels of {} are not the samples' input 'label'", file, node.op->name());
    if (known < spec.classes)
      throw user_error("{}: {} knows {} classes, but the data have {}", file, node.op->name(), known,
                       spec.classes);
  }
}

void require_prediction(const std::string& file, const Graph& graph, const SampleSpec& spec) {
  const Shape shape = graph.value(graph.output("prediction")).type.shape;
  const Shape required = batch_of(DType::f32, prediction_of(spec), graph.batch()).shape;
  if (spec.classes > 0 && shape != required)
    throw user_error("{} predicts {} for a batch of {}, but the data require {}", file, shape.str(),
                     graph.batch(), required.str());
}

std::string changed_file(const std::string& name, const std::string& found, const std::string& expected) {
  return fmt::format("{} is not the file that the job names: its checksum is {}, not {}; it has changed",
                     name, found, expected);
}

void check_file(const std::string& name, const ModelFile& file, const std::string& checksum,
                const SampleSpec& spec) {
  if (!checksum.empty() && file.checksum != checksum)
    throw user_error("{}", changed_file(name, file.checksum, checksum));
  const ModelGraphs& graphs = *file.model.graphs;
  for (const Graph* graph : {&graphs.training, &graphs.evaluation, &graphs.prediction}) {
    require_inputs_of_job(name, *graph, spec);
    require_known_labels(name, *graph, spec);
  }
  require_prediction(name, graphs.prediction, spec);
}

}  // namespace

Model model_of_file(const ModelJob& job, const SampleSpec& spec) {
  try {
    ModelFile file = read_model_file(job.file);
    check_file(job.file, file, job.checksum, spec);
    return std::move(file.model);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", job.where, error.what()));
  }
}

Job with_settled_model(Job job, Processes* processes) {
  if (job.model.file.empty()) return job;
  std::string mistake;
  try {
    const std::string checksum = read_model_file(job.model.file).checksum;
    if (job.model.checksum.empty()) job.model.checksum = checksum;
    if (job.model.checksum != checksum)
      mistake =
          fmt::format("{}: {}", job.model.where, changed_file(job.model.file, checksum, job.model.checksum));
  } catch (const Error& error) {
    mistake = fmt::format("{}: {}", job.model.where, error.what());
  }
  if (processes != nullptr) {
    std::string of_rank_0 = job.model.checksum;
    processes->broadcast(of_rank_0);
    if (mistake.empty() && !of_rank_0.empty() && of_rank_0 != job.model.checksum)
      mistake = fmt::format("rank {} on {} has another file {} than rank 0; all processes need the same one",
                            processes->rank(), host_name(), job.model.file);
    mistake = processes->first_text(mistake);
  }
  if (!mistake.empty()) throw user_error("{}", mistake);
  return job;
}

}  // namespace telar
