#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "telar/io/output_file.h"
#include "telar/nn/model.h"

namespace telar {

/// Fills in the numbers of a parameter, in canonical order.
using GiveValues = std::function<void(const ParameterInfo& parameter, std::span<float> values)>;

/// Writes a model with its parameters' values as a safetensors file: a tensor for each parameter, by its
/// name, and in the metadata the model's text (telar/io/model_text.h) and its checksum. The bytes depend only
/// on the arguments.
///
///     OutputFile file("m.telar", OutputFile::Mode::truncate);
///     write_model_file(file, model.name, graphs_of(model, options), initial_values(seed));
///
/// Throws Error (user) for a name that is not UTF-8; failures to write throw as OutputFile does.
void write_model_file(OutputFile& file, const std::string& name, const ModelGraphs& graphs,
                      const GiveValues& give);

/// The values with which a training with this seed starts.
GiveValues initial_values(uint64_t seed);

struct ModelFile {
  /// Its parameters start from the values in the file, which stays open; each is read, and compared with its
  /// checksum, when it is asked for.
  Model model;
  std::string checksum;  ///< of everything in the file, parameters included: 16 hexadecimal digits
};

/// Reads such a file. Throws Error (user), naming the file and the place, for one that is missing, damaged,
/// of another form, or not a model (model_from_json()).
ModelFile read_model_file(const std::filesystem::path& path);

}  // namespace telar
