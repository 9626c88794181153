#include "telar/train/given_values.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/io/safetensors.h"
#include "telar/train/run_folder.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

/// "layer1.0.conv1" of "layer1.0.conv1.weight"; "" of a name without a dot.
std::string layer_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

/// Whether a pattern matches the name, or the name of a layer that it is in.
bool matches(const std::string& pattern, std::string name) {
  for (; !name.empty(); name = layer_of(name))
    if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return true;
  return false;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  const size_t shown = std::min(kShown, names.size());
  return fmt::format("{}{}",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

fs::path file_of(const std::string& path) {
  if (fs::is_directory(path)) return find_trained(path, false).path / "model.safetensors";
  std::array<char, 4> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  if (head == std::array<char, 4>{'P', 'K', 3, 4} || head[0] == '\x80')
    throw user_error(
        "{} is a file of PyTorch, which may hold programs; convert it: python -c \"import torch, "
        "safetensors.torch as s; s.save_file({{k: v.contiguous() for k, v in torch.load('{}', "
        "map_location='cpu', weights_only=True).items()}}, '{}')\"",
        path, path, fs::path(path).replace_extension(".safetensors").string());
  return path;
}

/// What stands before the model's names in the file.
std::string prefix_in(const SafetensorsFile& file, const std::vector<ParameterInfo>& parameters) {
  std::string best;
  std::ptrdiff_t most = -1;
  for (const char* prefix : {"", "module.", "model."}) {
    const auto found = std::ranges::count_if(
        parameters, [&](const ParameterInfo& parameter) { return file.has(prefix + parameter.name); });
    if (found > most) best = prefix;
    most = std::max(most, found);
  }
  return best;
}

GivenValues values_in(const std::string& path, const std::vector<ParameterInfo>& parameters) {
  GivenValues given{.file = file_of(path), .names = {}, .notes = {}};
  const SafetensorsFile file(given.file);
  const std::string prefix = prefix_in(file, parameters);
  const std::string head = parameters.empty() ? "" : layer_of(parameters.back().name);
  std::set<std::string> known;
  std::vector<std::string> anew;
  std::vector<std::string> wrong;
  for (const ParameterInfo& parameter : parameters) {
    const std::string name = prefix + parameter.name;
    known.insert(name);
    if (file.has(name) && file.entry(name).shape == parameter.shape) {
      given.names.emplace_back(parameter.name, name);
      continue;
    }
    const std::string text = file.has(name) ? fmt::format("{} is {}, not {}", name,
                                                          file.entry(name).shape.str(), parameter.shape.str())
                                            : fmt::format("{} is missing", name);
    (layer_of(parameter.name) == head && parameter.trainable ? anew : wrong).push_back(text);
  }
  if (!wrong.empty() || given.names.empty())
    throw user_error("{} does not have the values of this model: {}", given.file.string(),
                     listed(wrong.empty() ? anew : wrong));
  std::vector<std::string> others;
  for (const SafetensorsEntry& entry : file.entries())
    if (!known.contains(entry.name) && !entry.name.ends_with(".num_batches_tracked"))
      others.push_back(entry.name);
  given.notes = fmt::format("weights: {} tensors of {}", given.names.size(), given.file.string());
  if (!anew.empty()) given.notes += fmt::format("; the last layer begins anew: {}", listed(anew));
  if (!others.empty()) given.notes += fmt::format("; the model does not have {}", listed(others));
  return given;
}

}  // namespace

std::vector<std::string> matching(const std::string& pattern, const std::vector<ParameterInfo>& parameters) {
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : parameters)
    if (matches(pattern, parameter.name)) names.push_back(parameter.name);
  return names;
}

std::string nearest_layer(const std::string& pattern, const std::vector<ParameterInfo>& parameters) {
  std::vector<std::string> layers;
  for (const ParameterInfo& parameter : parameters) layers.push_back(layer_of(parameter.name));
  const std::string near = nearest(pattern, layers);
  return near.empty() ? "; telar show lists them" : fmt::format("; did you mean '{}'?", near);
}

void freeze(Model& model, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  const std::vector<ParameterInfo> parameters = parameters_of(model);
  std::set<std::string> frozen;
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> names = matching(pattern, parameters);
    if (names.empty())
      throw user_error("model.freeze: '{}' matches no layer or parameter{}", pattern,
                       nearest_layer(pattern, parameters));
    frozen.insert(names.begin(), names.end());
  }
  if (std::ranges::all_of(parameters, [&](const ParameterInfo& parameter) {
        return !parameter.trainable || frozen.contains(parameter.name);
      }))
    throw user_error("model.freeze: nothing of model '{}' is left to train", model.name);
  model.frozen = [frozen](const std::string& name) { return frozen.contains(name); };
}

GivenValues given_values(const std::string& path, const std::vector<ParameterInfo>& parameters) {
  try {
    return values_in(path, parameters);
  } catch (const Error& error) {
    throw user_error("model.weights: {}", error.what());
  }
}

void write_values(const GivenValues& given, Session& session) {
  const SafetensorsFile file(given.file);
  for (const auto& [name, in_file] : given.names) {
    const NamedTensor tensor = file.read(in_file);
    if (!std::ranges::all_of(tensor.data, [](float value) { return std::isfinite(value); }))
      throw user_error("model.weights: {} in {} holds a value that is no number", in_file,
                       given.file.string());
    session.write_state(name, tensor.data);
  }
}

}  // namespace telar
