#include "telar/io/model_text.h"

#include <algorithm>
#include <set>

#include "telar/core/error.h"
#include "telar/io/graph_json.h"
#include "telar/io/json_fields.h"
#include "telar/io/model_operations.h"
#include "telar/io/model_samples.h"

namespace telar {

namespace {

/// The form of the text. A change of its meaning gets another number.
constexpr int64_t kModelForm = 1;
constexpr int64_t kParameterExtent = int64_t{1} << 47;
constexpr int64_t kTriedBatches[] = {2, 3};

const std::string kPrediction = "prediction";

const RunningStatistic* statistic_of(const ModelGraphs& graphs, const std::string& name) {
  const auto found = std::find_if(graphs.running_statistics.begin(), graphs.running_statistics.end(),
                                  [&](const RunningStatistic& statistic) { return statistic.name == name; });
  return found == graphs.running_statistics.end() ? nullptr : &*found;
}

nlohmann::json parameter_json(const ParameterInfo& parameter, const ModelText& model) {
  nlohmann::json entry{{"name", parameter.name},
                       {"shape", parameter.shape.dims()},
                       {"checksum", model.checksums.at(parameter.name)}};
  if (const RunningStatistic* statistic = statistic_of(model.graphs, parameter.name)) {
    entry["role"] = "statistic";
    entry["momentum"] = statistic->momentum;
  } else {
    entry["role"] = parameter.trainable ? "trained" : "fixed";
  }
  return entry;
}

void read_parameter(const JsonFields& fields, ModelText& model) {
  ParameterInfo parameter;
  parameter.name = fields.text("name");
  parameter.shape = Shape(fields.integers("shape", 1, kParameterExtent));
  if (parameter.name.empty()) throw fields.wrong("name", "a text that is not empty");
  if (parameter.shape.rank() == 0) throw fields.wrong("shape", "a list of at least one extent");
  TensorType{DType::f32, parameter.shape}.bytes();  // the check of its size
  const std::string role = fields.choice("role", {"trained", "statistic", "fixed"});
  parameter.trainable = role == "trained";
  if (role == "statistic") {
    const double momentum = fields.number("momentum", 0);
    if (momentum > 1) throw fields.wrong("momentum", "a number from 0 to 1");
    model.graphs.running_statistics.push_back({parameter.name, momentum});
  }
  if (!model.checksums.emplace(parameter.name, fields.text("checksum")).second)
    throw user_error("{}: the parameter '{}' is listed twice", fields.source(), parameter.name);
  model.graphs.parameters.push_back(std::move(parameter));
}

/// Checks one graph of a model. Inputs and attributes of its operations have been checked when it was read.
class ModelGraphCheck {
 public:
  enum class Purpose : uint8_t { training, evaluation, prediction };

  ModelGraphCheck(const Graph& graph, Purpose purpose, const ModelGraphs& model, const std::string& source)
      : graph_(graph), purpose_(purpose), model_(model), source_(source) {
    if (!graph.has(ValueKind::input, "x") || !graph.value(graph.find(ValueKind::input, "x")).batched)
      throw user_error("{}: there is no input 'x', batched", source);
    for (const auto& value : graph.values()) check_value(value);
    check_additions();
    check_outputs();
    for (const int64_t batch : kTriedBatches) check_batch(batch);
    require_sums_over_samples(graph, purpose == Purpose::training, source);
  }

 private:
  void check_value(const Value& value) const {
    switch (value.kind) {
      case ValueKind::input: return check_input(value);
      case ValueKind::parameter: return check_parameter(value);
      case ValueKind::optimizer_state:
        throw user_error("{}: '{}' is optimizer state, which a model does not have", source_, value.text());
      case ValueKind::gradient:
        if (purpose_ != Purpose::training || statistic_of(model_, value.name) == nullptr)
          throw user_error("{}: '{}' is not of a running statistic in training", source_, value.text());
        return check_parameter(value);
      case ValueKind::metric:
        if (purpose_ == Purpose::prediction ||
            std::find(model_.metrics.begin(), model_.metrics.end(), value.name) == model_.metrics.end())
          throw user_error("{}: '{}' is not among the metrics", source_, value.text());
        return;
      case ValueKind::result: return;
    }
  }

  void check_input(const Value& value) const {
    const int64_t batch = graph_.batch();
    if (value.name == "random") {
      require_type(value, {DType::i32, {4}}, false);
    } else if (value.name == "sample") {
      require_type(value, {DType::i32, {batch, 2}}, true);
    } else if (value.name == "learning_rate" || value.name == "samples" || value.name == "step") {
      throw user_error("{}: '{}' is an input of optimizers, not of a model", source_, value.name);
    } else if (!value.batched || value.type.shape[0] != batch ||
               (value.type.dtype != DType::f32 && value.type.dtype != DType::i32)) {
      throw user_error("{}: the input '{}' is {}; it must be f32 or i32, batched, with {} samples", source_,
                       value.name, value.type.str(), batch);
    }
  }

  void require_type(const Value& value, const TensorType& type, bool batched) const {
    if (value.type != type || value.batched != batched)
      throw user_error("{}: the input '{}' is {}; it must be {}{}", source_, value.name, value.type.str(),
                       type.str(), batched ? ", batched" : ", not batched");
  }

  void check_parameter(const Value& value) const {
    const auto listed = std::find_if(model_.parameters.begin(), model_.parameters.end(),
                                     [&](const ParameterInfo& p) { return p.name == value.name; });
    if (listed == model_.parameters.end())
      throw user_error("{}: the parameter '{}' is not listed", source_, value.name);
    if (value.type != TensorType{DType::f32, listed->shape})
      throw user_error("{}: '{}' is {}, but it is listed as f32 {}", source_, value.text(), value.type.str(),
                       listed->shape.str());
  }

  /// Buffers are added to, each once, and read by nothing.
  void check_additions() const {
    std::set<ValueId> written;
    for (const Node& node : graph_.nodes()) {
      const bool adds = node.op->has_effect();
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId id = node.inputs[i];
        if (id == kNoValue || graph_.value(id).is_buffer() == (adds && i == 0)) continue;
        throw user_error("{}: input {} of {} is '{}'; buffers are only added to, and nothing else is",
                         source_, i, node.op->name(), graph_.value(id).text());
      }
      if (!adds) continue;
      const Value& buffer = graph_.value(node.inputs[0]);
      const bool weighted = node.inputs.size() > 2;
      if (weighted != (buffer.kind == ValueKind::gradient))
        throw user_error(
            "{}: '{}' is added to {} the number of samples; running statistics are weighted by it, metrics are not",
            source_, buffer.text(), weighted ? "times" : "without");
      if (!written.insert(node.inputs[0]).second)
        throw user_error("{}: '{}' is added to twice", source_, buffer.text());
    }
    check_all_are_written(written);
  }

  void check_all_are_written(const std::set<ValueId>& written) const {
    const auto require = [&](ValueKind kind, const std::string& name) {
      if (!graph_.has(kind, name) || !written.contains(graph_.find(kind, name)))
        throw user_error("{}: nothing is added to '{}'", source_, name);
    };
    if (purpose_ == Purpose::prediction) return;
    for (const std::string& metric : model_.metrics) require(ValueKind::metric, metric);
    if (purpose_ == Purpose::evaluation) return;
    for (const RunningStatistic& statistic : model_.running_statistics)
      require(ValueKind::gradient, statistic.name);
    for (const ParameterInfo& parameter : model_.parameters)
      if (parameter.trainable && !graph_.has(ValueKind::parameter, parameter.name))
        throw user_error("{}: it does not use the parameter '{}', which is to be trained", source_,
                         parameter.name);
  }

  void check_outputs() const {
    if (purpose_ != Purpose::prediction) {
      if (!graph_.outputs().empty())
        throw user_error("{}: it has an output; only a prediction has one", source_);
      return;
    }
    if (graph_.outputs().size() != 1 || graph_.outputs()[0].first != kPrediction)
      throw user_error("{}: it must have one output, '{}'", source_, kPrediction);
    const Value& value = graph_.value(graph_.output(kPrediction));
    if (value.kind != ValueKind::result || value.type.dtype != DType::f32)
      throw user_error("{}: its output is {}; it must be f32, the result of an operation", source_,
                       value.type.str());
  }

  /// The graph must hold for other numbers of samples.
  void check_batch(int64_t batch) const {
    const auto changed = [&] {
      try {
        return graph_.with_batch(batch);
      } catch (const Error& error) {
        throw user_error("{}: it holds only for batches of {}; with {} samples: {}", source_, graph_.batch(),
                         batch, error.what());
      }
    }();
    for (const auto& [name, id] : changed.outputs()) require_samples(changed, id, batch, "output");
    for (const Node& node : changed.nodes())
      if (node.op->has_effect() && node.inputs.size() > 2)
        require_samples(changed, node.inputs[2], batch, "weight of a running statistic");
  }

  void require_samples(const Graph& changed, ValueId id, int64_t batch, const char* what) const {
    const TensorType& type = changed.value(id).type;
    if (type.shape[0] != batch)
      throw user_error("{}: its {} is {} for {} samples; axis 0 must be the samples", source_, what,
                       type.str(), batch);
  }

  const Graph& graph_;
  Purpose purpose_;
  const ModelGraphs& model_;
  const std::string source_;
};

Graph read_model_graph(const JsonFields& fields, const std::string& name) {
  const std::string source = fmt::format("{}, {}", fields.source(), name);
  try {
    return graph_of_json(fields.value(name), add_model_operation, source);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(source)) throw;
    throw user_error("{}: {}", source, error.what());
  }
}

/// Samples that are evaluated have the tensors of those that are trained on, in the same form.
void require_same_forms(const ModelGraphs& graphs, const std::string& source) {
  for (const Graph* other : {&graphs.evaluation, &graphs.prediction}) {
    if (other->batch() != graphs.training.batch())
      throw user_error("{}: its graphs are for {} and {} samples; write all for the same batch", source,
                       graphs.training.batch(), other->batch());
    for (const Value& value : graphs.training.values()) {
      if (value.kind != ValueKind::input || value.name == "sample" || value.name == "random") continue;
      const bool there = other->has(ValueKind::input, value.name);
      if (!there && other == &graphs.evaluation)
        throw user_error("{}: the input '{}' is there only in training", source, value.name);
      if (there && other->value(other->find(ValueKind::input, value.name)).type != value.type)
        throw user_error("{}: the input '{}' has another form in training", source, value.name);
    }
  }
}

/// Names of metrics stand in logs and in metrics for Prometheus beside others.
void require_name_of_metric(const std::string& name, const std::string& source) {
  static const std::set<std::string> kTaken = {"step",
                                               "epoch",
                                               "samples",
                                               "seconds",
                                               "kind",
                                               "lag",
                                               "workers",
                                               "learning_rate",
                                               "lag_seconds",
                                               "lag_messages",
                                               "value",
                                               "window",
                                               "samples_per_second",
                                               "images_per_second"};
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  const bool plain = !name.empty() && name[0] >= 'a' && name[0] <= 'z' && std::ranges::all_of(name, is_plain);
  if (!plain)
    throw user_error(
        "{}: a metric is called '{}'; the name must be of a to z, 0 to 9 and _, and begin with a letter",
        source, name);
  if (kTaken.contains(name) || name.starts_with("window_") || name.starts_with("fading_"))
    throw user_error("{}: a metric is called '{}', as a figure of telar's own; give it another name", source,
                     name);
}

}  // namespace

std::string to_json(const ModelText& model) {
  nlohmann::json parameters = nlohmann::json::array();
  for (const ParameterInfo& parameter : model.graphs.parameters)
    parameters.push_back(parameter_json(parameter, model));
  return nlohmann::json{{"form", kModelForm},
                        {"name", model.name},
                        {"metrics", model.graphs.metrics},
                        {"parameters", parameters},
                        {"training", json_of(model.graphs.training)},
                        {"evaluation", json_of(model.graphs.evaluation)},
                        {"prediction", json_of(model.graphs.prediction)}}
      .dump();
}

ModelText model_from_json(const std::string& text, const std::string& source) {
  const JsonFields fields(text, source);
  if (!fields.has("form") || fields.value("form") != kModelForm)
    throw user_error("{} has another form than this release of telar knows; write it again with this release",
                     source);
  ModelText model;
  model.name = fields.text("name");
  size_t number = 0;
  for (const nlohmann::json& parameter : fields.list("parameters", "a list of parameters"))
    read_parameter(JsonFields::of(parameter, fmt::format("{}, parameter {}", source, number++)), model);
  ModelGraphs& graphs = model.graphs;
  graphs.metrics = fields.texts("metrics");
  if (graphs.metrics.empty() || graphs.metrics[0] != kLoss ||
      std::set<std::string>(graphs.metrics.begin(), graphs.metrics.end()).size() != graphs.metrics.size())
    throw user_error("{}: metrics must begin with '{}', and name each once", source, kLoss);
  for (const std::string& metric : graphs.metrics) require_name_of_metric(metric, source);
  graphs.training = read_model_graph(fields, "training");
  graphs.evaluation = read_model_graph(fields, "evaluation");
  graphs.prediction = read_model_graph(fields, "prediction");
  using Purpose = ModelGraphCheck::Purpose;
  const ModelGraphCheck training(graphs.training, Purpose::training, graphs, source + ", training");
  const ModelGraphCheck evaluation(graphs.evaluation, Purpose::evaluation, graphs, source + ", evaluation");
  const ModelGraphCheck prediction(graphs.prediction, Purpose::prediction, graphs, source + ", prediction");
  require_same_forms(graphs, source);
  return model;
}

}  // namespace telar
