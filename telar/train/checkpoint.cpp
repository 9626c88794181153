#include "telar/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/io/safetensors.h"
#include "telar/train/file_digest.h"

namespace telar {

namespace fs = std::filesystem;

namespace {

const std::string kModel = "model.safetensors";
const std::string kOptimizer = "optimizer.safetensors";
const std::string kState = "state.json";
const std::string kPrefix = "step-";

bool is_parameter(const std::string& state) { return state.find('/') == std::string::npos; }

void write_tensors(const AtomicFolder& folder, const std::string& name, const Session& session,
                   bool parameters) {
  std::vector<NamedTensor> tensors;
  for (const std::string& state : session.state_names()) {
    if (is_parameter(state) != parameters) continue;
    tensors.push_back({state, session.state_shape(state), session.read_state(state)});
  }
  OutputFile file = folder.create(name);
  write_safetensors(file, tensors, {{"format", "pt"}});
}

int64_t step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  int64_t step = -1;
  const char* end = name.data() + name.size();
  if (!name.starts_with(kPrefix)) return -1;
  const auto [stop, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return code == std::errc() && stop == end ? step : -1;
}

/// The differences between the tensors of a file and those of the session, as texts.
std::vector<std::string> mismatches(const SafetensorsFile& file, const Session& session, bool parameters) {
  std::vector<std::string> found;
  std::vector<std::string> wanted;
  for (const std::string& name : session.state_names()) {
    if (is_parameter(name) != parameters) continue;
    wanted.push_back(name);
    const Shape shape = session.state_shape(name);
    if (!file.has(name)) {
      found.push_back(fmt::format("'{}' {} is missing from the file", name, shape.str()));
    } else if (file.entry(name).shape != shape) {
      found.push_back(fmt::format("'{}' is {} in the file and {} in the model", name,
                                  file.entry(name).shape.str(), shape.str()));
    }
  }
  for (const SafetensorsEntry& entry : file.entries()) {
    if (std::find(wanted.begin(), wanted.end(), entry.name) == wanted.end()) {
      found.push_back(fmt::format("'{}' {} is not in the model", entry.name, entry.shape.str()));
    }
  }
  return found;
}

void require_same_tensors(const fs::path& path, const Session& session, bool parameters) {
  constexpr size_t kShown = 3;
  const SafetensorsFile file(path);
  std::vector<std::string> found = mismatches(file, session, parameters);
  if (found.empty()) return;
  const size_t more = found.size() - std::min(found.size(), kShown);
  found.resize(std::min(found.size(), kShown));
  throw user_error("{} belongs to another {}: {}{}", path.string(), parameters ? "model" : "optimizer",
                   fmt::join(found, "; "), more == 0 ? "" : fmt::format("; and {} more", more));
}

void load_tensors(const fs::path& path, Session& session, bool parameters) {
  const SafetensorsFile file(path);
  for (const std::string& name : session.state_names()) {
    if (is_parameter(name) == parameters) session.write_state(name, file.read(name).data);
  }
}

}  // namespace

std::string read_checkpoint_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw user_error("the checkpoint file {} is missing", path.string());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
  return folder / fmt::format("{}{:08}", kPrefix, step);
}

void write_checkpoint(const fs::path& path, const Session& session, const TrainingState& state,
                      const ExtraFiles& extra) {
  AtomicFolder folder(path);
  write_tensors(folder, kModel, session, true);
  write_tensors(folder, kOptimizer, session, false);
  std::vector<std::string> names = {kModel, kOptimizer};
  for (const auto& [name, text] : extra) {
    folder.write(name, text);
    names.push_back(name);
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_json(state));
  for (const std::string& name : names) {
    const FileDigest digest = digest_of(folder.path() / name);
    json["files"][name] = {{"bytes", digest.bytes}, {"crc32", digest.crc32}};
  }
  folder.write(kState, json.dump(2) + "\n");
  folder.commit();
}

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (step_of(entry.path()) >= 0) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return step_of(a) > step_of(b); });
  return found;
}

TrainingState verify_checkpoint(const fs::path& path) {
  const std::string source = (path / kState).string();
  const std::string text = read_checkpoint_text(path / kState);
  TrainingState state = training_state_from_json(text, source);
  try {
    const auto json = nlohmann::json::parse(text);
    for (const auto& [name, digest] : json.at("files").items()) {
      const fs::path file = path / name;
      if (name.find('/') != std::string::npos || !fs::is_regular_file(file)) {
        throw user_error("the checkpoint file {} is missing", file.string());
      }
      require_digest(file, {digest.at("bytes").get<uint64_t>(), digest.at("crc32").get<uint32_t>()});
    }
    for (const std::string& name : {kModel, kOptimizer}) {
      if (!json.at("files").contains(name)) throw user_error("{} does not list {}", source, name);
    }
  } catch (const nlohmann::json::exception& error) {
    throw user_error("{} is not the state of a checkpoint: {}", source, error.what());
  }
  return state;
}

std::optional<FoundCheckpoint> newest_checkpoint(const fs::path& folder) {
  FoundCheckpoint found;
  const std::vector<fs::path> candidates = list_checkpoints(folder);
  for (const fs::path& path : candidates) {
    try {
      found.state = verify_checkpoint(path);
      found.path = path;
      return found;
    } catch (const Error& error) {
      found.warnings.push_back(
          fmt::format("the checkpoint {} is damaged and was skipped: {}", path.string(), error.what()));
    }
  }
  if (candidates.empty()) return std::nullopt;
  throw user_error("all {} checkpoints in {} are damaged; {}", candidates.size(), folder.string(),
                   found.warnings[0]);
}

void load_parameters(const fs::path& path, Session& session) {
  require_same_tensors(path / kModel, session, true);
  load_tensors(path / kModel, session, true);
}

void load_all(const fs::path& path, Session& session) {
  require_same_tensors(path / kModel, session, true);
  require_same_tensors(path / kOptimizer, session, false);
  load_tensors(path / kModel, session, true);
  load_tensors(path / kOptimizer, session, false);
}

void remove_old_checkpoints(const fs::path& folder, int64_t keep, int64_t best) {
  std::vector<fs::path> checkpoints = list_checkpoints(folder);
  for (size_t i = static_cast<size_t>(keep); i < checkpoints.size(); ++i) {
    if (step_of(checkpoints[i]) == best) continue;
    // Renamed before it is removed: if the process is killed meanwhile, no incomplete checkpoint is left.
    const fs::path doomed = checkpoints[i].string() + ".tmp-0";
    std::error_code error;
    fs::rename(checkpoints[i], doomed, error);
    if (!error) fs::remove_all(doomed, error);
    if (error) throw disk_error("remove the old checkpoint", checkpoints[i], error.value());
  }
}

}  // namespace telar
