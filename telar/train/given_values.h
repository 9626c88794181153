#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "telar/nn/model.h"
#include "telar/runtime/session.h"

namespace telar {

/// The names of the parameters that a pattern matches, by name or by that of a layer: with wildcards (*, ?,
/// [12]); "layer1" is the whole of it.
std::vector<std::string> matching(const std::string& pattern, const std::vector<ParameterInfo>& parameters);
/// For a pattern that matches none: "; did you mean 'layer1'?"
std::string nearest_layer(const std::string& pattern, const std::vector<ParameterInfo>& parameters);

/// Freezes the parameters of a model that the patterns match. Throws Error (user) for a pattern that matches
/// none, or if nothing is left to train.
void freeze(Model& model, const std::vector<std::string>& patterns);

/// Which tensors of a file are values of a model.
struct GivenValues {
  std::filesystem::path file;
  /// The model's names and the file's. The file may have a prefix before all names, and tensors that the
  /// model does not have.
  std::vector<std::pair<std::string, std::string>> names;
  std::string notes;  ///< what of either is left out, as a sentence
};

/// `path`: a .safetensors file, a run (its newest checkpoint) or a checkpoint. Only the parameters of the
/// model's last layer, unless they are frozen, may be missing in the file, or have another shape there: those
/// of other classes. Throws Error (user): it cannot be read, or other parameters are missing or differ, which
/// it names.
GivenValues given_values(const std::string& path, const std::vector<ParameterInfo>& parameters);

/// Gives them to a session. Throws Error (user) for a value that is no number.
void write_values(const GivenValues& given, Session& session);

}  // namespace telar
