#include "telar/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/io/json_fields.h"
#include "telar/io/safetensors.h"
#include "telar/train/file_digest.h"

namespace telar {

namespace fs = std::filesystem;

namespace {

const std::string kModel = "model.safetensors";
const std::string kOptimizer = "optimizer.safetensors";
const std::string kWorkers = "workers.safetensors";
const std::string kWorkerCount = "workers";  // in its metadata
const std::string kState = "state.json";
const std::string kChecksum = "crc32";
const std::string kPrefix = "step-";

/// The files of tensors of a session's checkpoint, in their order.
std::vector<std::pair<std::string, std::vector<StateName>>> files_of(const Session& session) {
  std::vector<StateName> parameters = session.state_names();
  const auto optimizer = std::stable_partition(parameters.begin(), parameters.end(),
                                               [](const StateName& name) { return name.is_parameter(); });
  std::vector<StateName> states(optimizer, parameters.end());
  parameters.erase(optimizer, parameters.end());
  std::vector<std::pair<std::string, std::vector<StateName>>> files{{kModel, std::move(parameters)},
                                                                    {kOptimizer, std::move(states)}};
  if (auto own = session.states_of_workers(); !own.empty()) files.emplace_back(kWorkers, std::move(own));
  return files;
}
/// The differences between the tensors of a file and those of the session, as texts.
std::vector<std::string> mismatches(const SafetensorsFile& file, const Session& session, bool parameters) {
  std::vector<std::string> found;
  std::vector<std::string> wanted;
  for (const StateName& state : session.state_names()) {
    if (state.is_parameter() != parameters) continue;
    const std::string& name = wanted.emplace_back(state.text());
    const Shape shape = session.state_shape(state);
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
  for (const StateName& state : session.state_names()) {
    if (state.is_parameter() == parameters) session.write_state(state, file.read(state.text()).data);
  }
}

/// The CRC-32 of a state without this field, however it is laid out.
uint32_t checksum_of(nlohmann::json state) {
  state.erase(kChecksum);
  return crc32_of(state.dump());
}

/// A state of before this field existed has none.
void require_own_checksum(const JsonFields& fields) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (!fields.has(kChecksum)) return;
  if (fields.integer(kChecksum, 0, kMost) != checksum_of(fields.document()))
    throw user_error("{} has changed since it was written: its content does not have its CRC-32",
                     fields.source());
}

FileDigest digest_from(const nlohmann::json& json, const std::string& name, const std::string& source) {
  const auto is_size = [&](const char* field) {
    return json.is_object() && json.contains(field) && json.at(field).is_number_unsigned();
  };
  if (!is_size("bytes") || !is_size("crc32"))
    throw user_error("{}: files.{} must have bytes and crc32, both integers of at least 0", source, name);
  return {json.at("bytes").get<uint64_t>(), json.at("crc32").get<uint32_t>()};
}

}  // namespace

std::vector<CheckpointFile> checkpoint_tensors(const Session& session) {
  std::vector<CheckpointFile> files;
  for (const auto& [name, states] : files_of(session)) {
    CheckpointFile file{.name = name, .tensors = {}, .metadata = {{"format", "pt"}}};
    if (name == kWorkers) file.metadata[kWorkerCount] = fmt::format("{}", session.program().mesh.workers());
    for (const StateName& state : states)
      file.tensors.push_back({state.text(), session.state_shape(state), session.read_state(state)});
    files.push_back(std::move(file));
  }
  return files;
}

void read_for_checkpoint(const Session& session) {
  // In the order of checkpoint_tensors, but one at a time: this process keeps none of them.
  for (const auto& [file, states] : files_of(session))
    for (const StateName& state : states) session.read_state(state);
}

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

int64_t step_of_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  int64_t step = -1;
  const char* end = name.data() + name.size();
  if (!name.starts_with(kPrefix)) return -1;
  const auto [stop, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return code == std::errc() && stop == end ? step : -1;
}

void write_checkpoint(const fs::path& path, const std::vector<CheckpointFile>& tensors,
                      const TrainingState& state, const ExtraFiles& extra, bool replaces) {
  AtomicFolder folder(path, replaces);
  std::vector<std::string> names;
  for (const CheckpointFile& file : tensors) {
    OutputFile output = folder.create(file.name);
    write_safetensors(output, file.tensors, file.metadata);
    names.push_back(file.name);
  }
  for (const auto& [name, text] : extra) {
    folder.write(name, text);
    names.push_back(name);
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_json(state));
  for (const std::string& name : names) {
    const FileDigest digest = digest_of(folder.path() / name);
    json["files"][name] = {{"bytes", digest.bytes}, {"crc32", digest.crc32}};
  }
  json[kChecksum] = checksum_of(nlohmann::json::parse(json.dump()));
  folder.write(kState, json.dump(2) + "\n");
  folder.commit();
}

bool is_checkpoint_of(const fs::path& path, const TrainingState& state) {
  if (!fs::exists(path)) return false;
  try {
    return training_state_from_json(read_checkpoint_text(path / kState), path.string()) == state;
  } catch (const Error&) {
    return false;
  }
}

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (step_of_checkpoint(entry.path()) >= 0) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return step_of_checkpoint(a) > step_of_checkpoint(b);
  });
  return found;
}

TrainingState verify_checkpoint(const fs::path& path) {
  const std::string source = (path / kState).string();
  const std::string text = read_checkpoint_text(path / kState);
  TrainingState state = training_state_from_json(text, source);
  const JsonFields fields(text, source);
  if (is_checkpoint_name(path) && state.step != step_of_checkpoint(path))
    throw fields.wrong("step", fmt::format("{}, as the name of its folder says", step_of_checkpoint(path)));
  require_own_checksum(fields);
  const nlohmann::json& files = fields.value("files");
  if (!files.is_object()) throw fields.wrong("files", "an object with the length and checksum of each file");
  for (const auto& [name, digest] : files.items()) {
    const fs::path file = path / name;
    if (name.find('/') != std::string::npos || !fs::is_regular_file(file))
      throw user_error("the checkpoint file {} is missing", file.string());
    require_digest(file, digest_from(digest, name, source));
  }
  for (const std::string& name : {kModel, kOptimizer}) {
    if (!files.contains(name)) throw user_error("{} does not list {}", source, name);
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
  for (const StateName& state : own_states(path, session).names)
    session.write_state(state, read_checkpoint_tensor(path, state));
}

OwnStates own_states(const fs::path& path, const Session& session) {
  OwnStates own;
  if (!fs::exists(path / kWorkers)) return own;
  const SafetensorsFile file(path / kWorkers);
  const int64_t workers = session.program().mesh.workers();
  const auto found = file.metadata().find(kWorkerCount);
  const std::string of_file = found == file.metadata().end() ? "?" : found->second;
  if (!trains_alone(session.program())) {
    own.why_not = fmt::format(
        "each of {} workers had trained alone; this run goes on with the mean of their parameters and of their optimizer states",
        of_file);
  } else if (of_file != fmt::format("{}", workers)) {
    own.why_not = fmt::format(
        "the checkpoint has the state of each of {} workers, and this run has {}, which begin with the mean of it",
        of_file, workers);
  } else {
    for (int64_t worker = 0; worker < workers; ++worker)
      for (StateName name : session.state_names()) {
        name.worker = worker;
        if (file.has(name.text())) own.names.push_back(std::move(name));
      }
  }
  return own;
}

std::vector<float> read_checkpoint_tensor(const fs::path& path, const StateName& name) {
  const std::string& file = name.worker ? kWorkers : name.is_parameter() ? kModel : kOptimizer;
  return SafetensorsFile(path / file).read(name.text()).data;
}

std::vector<fs::path> set_aside_checkpoints_after(const fs::path& folder, int64_t step) {
  std::vector<fs::path> aside;
  for (const fs::path& path : list_checkpoints(folder)) {
    if (step_of_checkpoint(path) <= step) break;
    aside.emplace_back(path.string() + ".damaged");
    std::error_code error;
    fs::remove_all(aside.back(), error);
    fs::rename(path, aside.back(), error);
    if (error) throw disk_error("rename the damaged checkpoint", path, error.value());
  }
  return aside;
}

void remove_old_checkpoints(const fs::path& folder, int64_t keep, int64_t best) {
  std::vector<fs::path> checkpoints = list_checkpoints(folder);
  for (size_t i = static_cast<size_t>(keep); i < checkpoints.size(); ++i) {
    if (step_of_checkpoint(checkpoints[i]) == best) continue;
    // Renamed before it is removed: if the process is killed meanwhile, no incomplete checkpoint is left.
    const fs::path doomed = checkpoints[i].string() + ".tmp-0";
    std::error_code error;
    fs::rename(checkpoints[i], doomed, error);
    if (!error) fs::remove_all(doomed, error);
    if (error) throw disk_error("remove the old checkpoint", checkpoints[i], error.value());
  }
}

}  // namespace telar
