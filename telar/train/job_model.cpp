#include "telar/train/job_model.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/nn/zoo.h"
#include "telar/train/given_values.h"
#include "telar/train/job_layers.h"
#include "telar/train/job_value.h"

namespace telar {

namespace {

const std::vector<std::string> kModelKeys = {"name",     "options", "layers", "file",
                                             "checksum", "weights", "freeze"};

Attributes read_options(const std::string& model, const JobNode& node) {
  if (node.kind == JobNode::Kind::null) return {};
  if (node.kind != JobNode::Kind::map) {
    throw user_error("{}: model.options is {}; it must be a group of keys", node.where, node.described());
  }
  const std::vector<std::string> known = option_names(model);
  Attributes options;
  for (const JobEntry& entry : node.entries) {
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      const std::string near = nearest(entry.key, known);
      throw user_error("{}: unknown key 'model.options.{}'{}; the options of model '{}' are: {}", entry.where,
                       entry.key, near.empty() ? "" : fmt::format(", did you mean '{}'?", near), model,
                       known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
    options.set(entry.key, read_attribute(entry.value, "model.options." + entry.key));
  }
  return options;
}

std::string read_name(const JobNode& node) {
  std::string name;
  read_value(node, "model.name", {.choices = model_names()}, name);
  return name;
}

/// Keys that belong to another kind of model.
void refuse_keys_of_others(const JobNode& section, bool named, bool of_file) {
  const JobNode* options = section.find("options");
  if (options != nullptr && !named)
    throw user_error("{}: 'options' are only valid for models with a 'name'", options->where);
  const JobNode* checksum = section.find("checksum");
  if (checksum != nullptr && !of_file)
    throw user_error("{}: 'checksum' is only valid for models with a 'file'", checksum->where);
  for (const char* key : {"weights", "freeze"})
    if (const JobNode* node = section.find(key); node != nullptr && of_file)
      throw user_error("{}: '{}' is not for models with a 'file', which has values of its own", node->where,
                       key);
}

/// What a model starts with, and what of it stays.
void read_given_values(const JobNode& section, ModelJob& model) {
  if (const JobNode* weights = section.find("weights"))
    read_value(*weights, "model.weights", {}, model.weights);
  if (const JobNode* freeze = section.find("freeze")) read_value(*freeze, "model.freeze", {}, model.freeze);
}

std::string given_values_text(const ModelJob& model) {
  std::string text;
  if (!model.weights.empty()) text += fmt::format("  weights: {}\n", value_text(model.weights));
  if (!model.freeze.empty()) text += fmt::format("  freeze: {}\n", value_text(model.freeze));
  return text;
}

/// With the tokens of the data in models and layers that look tokens up and do not say how many there are.
ModelJob with_vocabulary(ModelJob job, int64_t tokens) {
  if (!job.name.empty()) {
    const std::vector<std::string> known = option_names(job.name);
    const bool takes = std::ranges::find(known, "vocabulary") != known.end();
    if (takes && tokens > 0 && !job.options.has("vocabulary")) job.options.set("vocabulary", tokens);
  }
  for (LayerJob& layer : job.layers)
    if (layer.type == "embedding" && layer.options.integer("vocabulary") == 0 && tokens > 0)
      layer.options.set("vocabulary", tokens);
  return job;
}

std::string layer_text(const LayerJob& layer) {
  std::vector<std::string> parts = {"name: " + value_text(layer.name), "type: " + layer.type};
  if (!layer.inputs.empty()) parts.push_back("inputs: " + value_text(layer.inputs));
  for (const auto& [name, value] : layer.options) parts.push_back(name + ": " + value_text(value));
  return fmt::format("    - {{{}}}\n", fmt::join(parts, ", "));
}

}  // namespace

ModelJob read_model_job(const JobNode& section) {
  if (section.kind != JobNode::Kind::map) {
    throw user_error(
        "{}: model is {}; it must be the name of a model, or a group of keys with 'name', 'layers' or 'file'",
        section.where, section.described());
  }
  for (const JobEntry& entry : section.entries) {
    if (std::find(kModelKeys.begin(), kModelKeys.end(), entry.key) != kModelKeys.end()) continue;
    const std::string near = nearest(entry.key, kModelKeys);
    throw user_error(
        "{}: unknown key 'model.{}'{}; a model has {}, and the keys of a model from the zoo belong under 'options'",
        entry.where, entry.key, near.empty() ? "" : fmt::format(", did you mean 'model.{}'?", near),
        one_of(kModelKeys));
  }
  const JobNode* name = section.find("name");
  const JobNode* layers = section.find("layers");
  const JobNode* file = section.find("file");
  if ((name != nullptr) + (layers != nullptr) + (file != nullptr) != 1) {
    throw user_error("{}: a model must have either a 'name', 'layers' or a 'file'", section.where);
  }
  refuse_keys_of_others(section, name != nullptr, file != nullptr);
  ModelJob model;
  if (file != nullptr) {
    model.where = file->where;
    read_value(*file, "model.file", {}, model.file);
    if (model.file.empty())
      throw user_error("{}: model.file is empty; it must be the path of a model file", file->where);
    if (const JobNode* checksum = section.find("checksum"))
      read_value(*checksum, "model.checksum", {}, model.checksum);
    return model;
  }
  if (layers != nullptr) {
    model.where = layers->where;
    model.layers = read_layers(*layers);
    read_given_values(section, model);
    return model;
  }
  model.where = name->where;
  model.name = read_name(*name);
  if (const JobNode* options = section.find("options")) model.options = read_options(model.name, *options);
  read_given_values(section, model);
  return model;
}

std::string model_job_text(const ModelJob& model) {
  std::string text = "model:\n";
  if (!model.file.empty()) {
    text += fmt::format("  file: {}\n", value_text(model.file));
    if (!model.checksum.empty()) text += fmt::format("  checksum: {}\n", value_text(model.checksum));
    return text;
  }
  if (model.layers.empty()) {
    text += "  name: " + model.name + "\n";
    if (!model.options.empty()) text += "  options:\n";
    for (const auto& [name, value] : model.options)
      text += fmt::format("    {}: {}\n", name, value_text(value));
    return text + given_values_text(model);
  }
  text += "  layers:\n";
  for (const LayerJob& layer : model.layers) text += layer_text(layer);
  return text + given_values_text(model);
}

bool same_model(const ModelJob& a, const ModelJob& b) {
  if (!a.checksum.empty() && !b.checksum.empty()) return a.checksum == b.checksum;
  // What a model began with is no part of it.
  const auto text = [](ModelJob model) {
    model.weights.clear();
    return model_job_text(model);
  };
  return text(a) == text(b);
}

Shape prediction_of(const SampleSpec& spec) {
  std::vector<int64_t> shape = spec.labels.dims();
  if (spec.classes > 0) shape.push_back(spec.classes);
  return Shape(std::move(shape));
}

int64_t outputs_of(const SampleSpec& spec) { return spec.classes > 0 ? spec.classes : spec.labels[0]; }

Model model_of_job(const ModelJob& given, const SampleSpec& spec) {
  const ModelJob job = with_vocabulary(given, spec.vocabulary);
  const DType input = spec.dtype;
  try {
    Model model = job.layers.empty() ? make_model(job.name, job.options, spec.features, outputs_of(spec))
                                     : model_of_layers(job.layers, spec.features, input);
    if (model.input != input) {
      throw user_error("model '{}' takes {}, but the data are {}", model.name,
                       model.input == DType::i32 ? "token ids" : "numbers",
                       input == DType::i32 ? "token ids" : "numbers");
    }
    const Graph graph = forward_graph(model, Mode::evaluation, 1);
    const Shape prediction = graph.value(graph.output("prediction")).type.shape;
    std::vector<int64_t> required = prediction_of(spec).dims();
    required.insert(required.begin(), 1);
    if (prediction.dims() != required) {
      throw user_error("the model's last layer produces {} for a batch of 1, but the data require {}",
                       prediction.str(), Shape(required).str());
    }
    freeze(model, job.freeze);
    return model;
  } catch (const Error& error) {
    if (job.where.empty() ||
        std::string_view(error.what()).starts_with(job.where.substr(0, job.where.rfind(':'))))
      throw;
    throw Error(error.kind(), fmt::format("{}: {}", job.where, error.what()));
  }
}

}  // namespace telar
