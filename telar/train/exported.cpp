#include "telar/train/exported.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "telar/core/error.h"
#include "telar/data/files.h"
#include "telar/data/normalised.h"
#include "telar/data/source.h"
#include "telar/data/tables/table_rules.h"
#include "telar/data/texts/token_options.h"
#include "telar/io/atomic_file.h"
#include "telar/io/onnx/onnx_file.h"
#include "telar/io/safetensors.h"
#include "telar/nn/training_step.h"
#include "telar/train/checkpoint.h"
#include "telar/train/job_session.h"
#include "telar/train/pipeline.h"

namespace telar {

namespace {

/// The names of a table's features; empty if its columns are the features.
std::vector<std::string> feature_names(const DataJob& data) {
  std::vector<std::string> names;
  if (!data.options.has("encoding")) return names;
  for (const std::string& rule : data.options.texts("encoding"))
    std::ranges::move(ColumnRule::of(rule).names(), std::back_inserter(names));
  return names;
}

/// What the numbers of "x" are.
std::string described(const Trained& trained) {
  const DataJob& data = trained.job.data;
  const Shape& sample = trained.spec.features;
  if (trained.spec.dtype == DType::i32) return fmt::format("token ids {}", sample.str());
  if (data.options.has("columns") && !data.options.texts("columns").empty())
    return fmt::format("features of a table: {}", fmt::join(data.options.texts("columns"), ", "));
  const SourceType& source = source_type(data.source);
  const bool fractions = source.bytes_are_fractions && source.bytes_are_fractions(data.options);
  return fmt::format("{}{}", sample.str(), fractions ? "; bytes of pictures divided by 255" : "");
}

OnnxForm form_of(const Trained& trained) {
  const DataJob& data = trained.job.data;
  OnnxForm form;
  form.name = trained.job.name;
  if (trained.spec.classes > 0) {
    form.result = OnnxForm::Result::classes;
  } else if (takes_probabilities(job_step_options(trained.job, trained.spec).loss)) {
    form.result = OnnxForm::Result::probabilities;
  }
  const FeatureScale scale = scale_of(data, trained.spec);
  form.mean = scale.mean;
  form.std = scale.std;
  form.wide = !scale.mean.empty() && Normaliser(trained.spec, scale).takes_wide();
  form.described = described(trained);
  form.metadata["telar.checkpoint"] = trained.checkpoint.filename().string();
  const auto list = [&](const std::string& name, const std::vector<std::string>& texts) {
    if (!texts.empty()) form.metadata["telar." + name] = nlohmann::json(texts).dump();
  };
  list("classes", trained.spec.class_names);
  for (const char* option : {"columns", "encoding", "words"})
    if (data.options.has(option)) list(option, data.options.texts(option));
  list("features", feature_names(data));
  if (data.options.has("tokens")) {
    form.metadata["telar.tokens"] = data.options.text("tokens");
    if (takes_tokenizer(data.options)) {
      const Bytes file = read_file(tokenizer_of(data.options).file);
      form.metadata["telar.tokenizer"] = std::string(file.begin(), file.end());
    }
  }
  return form;
}

}  // namespace

void export_model(const Trained& trained, const std::filesystem::path& path) {
  const SafetensorsFile values(trained.checkpoint / "model.safetensors");
  const auto extension = path.extension();
  if (extension != ".onnx" && extension != ".safetensors")
    throw user_error("{}: the name must end with .onnx or .safetensors, which says what is written",
                     path.string());
  const std::filesystem::path folder =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path)).parent_path();
  if (is_checkpoint_name(folder))
    throw user_error("{} is in a checkpoint, whose files are not overwritten; name another folder",
                     path.string());
  AtomicFile file(path);
  if (extension == ".onnx") {
    StepOptions options = job_step_options(trained.job, trained.spec);
    options.precision = Precision::f32;
    const ModelGraphs graphs = graphs_of(job_model(trained.job, trained.spec), options);
    write_onnx(
        file.file(), graphs.prediction,
        [&](const std::string& parameter, std::span<float> into) { values.read(parameter, into); },
        form_of(trained));
  } else {
    std::vector<NamedTensor> tensors;
    std::vector<NamedView> views;
    for (const SafetensorsEntry& entry : values.entries()) tensors.push_back(values.read(entry.name));
    for (const NamedTensor& tensor : tensors) views.push_back({tensor.name, tensor.shape, tensor.data});
    write_safetensors(file.file(), views);
  }
  file.commit();
}

}  // namespace telar
