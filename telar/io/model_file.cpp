#include "telar/io/model_file.h"

#include <fmt/format.h>

#include <memory>

#include "telar/core/error.h"
#include "telar/io/checksum.h"
#include "telar/io/model_text.h"
#include "telar/io/safetensors.h"
#include "telar/nn/initialise.h"

namespace telar {

namespace {

const std::string kTextKey = "telar_model";
const std::string kChecksumKey = "telar_checksum";

std::string checksum_text(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return fmt::format("{:016x}", checksum.value());
}

std::string checksum_text(const std::string& text) { return checksum_text(std::as_bytes(std::span(text))); }

/// The text of the model. Throws Error (user) unless the metadata contain it, undamaged.
const std::string& text_in(const Metadata& metadata, const std::string& source) {
  const auto text = metadata.find(kTextKey);
  const auto checksum = metadata.find(kChecksumKey);
  if (text == metadata.end() || checksum == metadata.end())
    throw user_error(
        "{} contains tensors, but no model; a model file of telar has its graphs in the metadata, under '{}'",
        source, kTextKey);
  if (checksum_text(text->second) != checksum->second)
    throw user_error("{} is damaged: the text of its model does not fit its checksum", source);
  return text->second;
}

/// Throws Error (user) unless the tensors are the parameters.
void require_tensors(const SafetensorsFile& file, const ModelGraphs& graphs, const std::string& source) {
  for (const ParameterInfo& parameter : graphs.parameters) {
    const SafetensorsEntry& entry = file.entry(parameter.name);
    if (entry.dtype != "F32" || entry.shape != parameter.shape)
      throw user_error("{}: the tensor '{}' is {} {}, but the parameter is F32 {}", source, parameter.name,
                       entry.dtype, entry.shape.str(), parameter.shape.str());
  }
  if (file.entries().size() != graphs.parameters.size())
    throw user_error("{} has {} tensors for {} parameters", source, file.entries().size(),
                     graphs.parameters.size());
}

/// Makes each parameter start from its tensor.
void start_from(const std::shared_ptr<const SafetensorsFile>& file, const std::string& source,
                const ModelText& text, ModelGraphs& graphs) {
  for (ParameterInfo& parameter : graphs.parameters) {
    parameter.initializer.kind = Initializer::Kind::given;
    parameter.initializer.give = [file, source, name = parameter.name,
                                  right = text.checksums.at(parameter.name)](std::span<float> values) {
      file->read(name, values);
      if (checksum_text(std::as_bytes(values)) != right)
        throw user_error("{} is damaged: the parameter '{}' does not fit its checksum", source, name);
    };
  }
}

}  // namespace

void write_model_file(OutputFile& file, const std::string& name, const ModelGraphs& graphs,
                      const GiveValues& give) {
  ModelText text{name, graphs, {}};
  std::vector<NamedTensor> tensors;
  for (const ParameterInfo& parameter : graphs.parameters) {
    NamedTensor tensor{parameter.name, parameter.shape,
                       std::vector<float>(static_cast<size_t>(parameter.shape.elements()))};
    give(parameter, tensor.data);
    text.checksums[parameter.name] = checksum_text(std::as_bytes(std::span(tensor.data)));
    tensors.push_back(std::move(tensor));
  }
  const std::string json = to_json(text);
  write_safetensors(file, tensors, {{kTextKey, json}, {kChecksumKey, checksum_text(json)}});
}

GiveValues initial_values(uint64_t seed) {
  return [seed](const ParameterInfo& parameter, std::span<float> values) {
    initialise(parameter, seed, values);
  };
}

ModelFile read_model_file(const std::filesystem::path& path) {
  const auto file = std::make_shared<const SafetensorsFile>(path);
  const std::string source = path.string();
  const std::string& json = text_in(file->metadata(), source);
  ModelText text = model_from_json(json, source);
  require_tensors(*file, text.graphs, source);
  auto graphs = std::make_shared<ModelGraphs>(text.graphs);
  start_from(file, source, text, *graphs);
  const Value& x = graphs->prediction.value(graphs->prediction.find(ValueKind::input, "x"));
  ModelFile read;
  read.model.name = text.name;
  read.model.sample = Shape(std::vector<int64_t>(x.type.shape.begin() + 1, x.type.shape.end()));
  read.model.input = x.type.dtype;
  read.model.graphs = std::move(graphs);
  read.checksum = checksum_text(json);
  return read;
}

}  // namespace telar
