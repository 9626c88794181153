#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "telar/io/safetensors.h"
#include "telar/runtime/session.h"
#include "telar/train/training_state.h"

namespace telar {

/// A checkpoint is a folder "step-00001234". It appears as a whole or not at all. It contains
///   model.safetensors      parameters by their own names, canonical layout; PyTorch can read them
///   optimizer.safetensors  optimizer state, "momentum/conv1.weight"
///   workers.safetensors    what workers that train alone have of their own (Session::states_of_workers),
///                          "3/momentum/conv1.weight"; the files above have the mean
///   state.json             the training state, the length and CRC-32 of every other file, and its own CRC-32
/// and the small files that its writer adds: the job, and the description of a sample.
using ExtraFiles = std::map<std::string, std::string>;

/// "FOLDER/step-00001234".
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);

/// The step of "…/step-00001234"; -1 for another name.
int64_t step_of_checkpoint(const std::filesystem::path& path);
inline bool is_checkpoint_name(const std::filesystem::path& path) { return step_of_checkpoint(path) >= 0; }

/// A file of tensors of a checkpoint.
struct CheckpointFile {
  std::string name;
  std::vector<NamedTensor> tensors;
  Metadata metadata;
};

/// A copy of a session's state. If it is divided, the other processes call read_for_checkpoint() meanwhile.
std::vector<CheckpointFile> checkpoint_tensors(const Session& session);

/// Throws Error (run) if it cannot be written, for example on a full disk; then it leaves nothing behind.
/// `replaces`: whether there may be another one already.
void write_checkpoint(const std::filesystem::path& path, const std::vector<CheckpointFile>& tensors,
                      const TrainingState& state, const ExtraFiles& extra = {}, bool replaces = false);

/// Whether there is a checkpoint at this path, and it is of this state. Its tensors are not verified.
bool is_checkpoint_of(const std::filesystem::path& path, const TrainingState& state);

/// Reads the tensors that checkpoint_tensors() reads, in the same order: what a process with a part of the
/// state does while another writes a checkpoint (Session::state_is_divided).
void read_for_checkpoint(const Session& session);

/// The complete checkpoints in a folder, newest first. Their contents are not verified.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

/// Reads every byte. Throws Error (user) that names a missing, truncated or changed file.
TrainingState verify_checkpoint(const std::filesystem::path& path);

/// The newest undamaged checkpoint, and a warning for each newer one that was skipped. Empty if there is no
/// checkpoint. Throws Error (user) if there are checkpoints and all are damaged.
struct FoundCheckpoint {
  std::filesystem::path path;
  TrainingState state;
  std::vector<std::string> warnings;
};
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder);

/// Loads a checkpoint's parameters into the session. Throws Error (user) that names the first differing
/// tensors if the checkpoint belongs to another model; the session is then unchanged.
void load_parameters(const std::filesystem::path& path, Session& session);
/// Loads the parameters and the optimizer state, and what workers have of their own (own_states()).
void load_all(const std::filesystem::path& path, Session& session);

/// What workers that train alone have of their own in a checkpoint.
struct OwnStates {
  std::vector<StateName> names;  ///< empty if there is none, or not for as many workers as the session has
  std::string why_not;           ///< why not, although there is some: a sentence; otherwise empty
};
OwnStates own_states(const std::filesystem::path& path, const Session& session);
/// The values of a tensor of the state. Throws Error (user) when it is missing.
std::vector<float> read_checkpoint_tensor(const std::filesystem::path& path, const StateName& name);

/// Renames the checkpoints of later steps to "step-00001234.damaged", so that a run that continues from
/// `step` can write them again, and returns the new paths. It has skipped them because they are damaged.
std::vector<std::filesystem::path> set_aside_checkpoints_after(const std::filesystem::path& folder,
                                                               int64_t step);

/// Removes all checkpoints except the `keep` newest and the one of step `best`.
void remove_old_checkpoints(const std::filesystem::path& folder, int64_t keep, int64_t best);

/// The complete contents of a text file in a checkpoint. Throws Error (user) if the file is missing.
std::string read_checkpoint_text(const std::filesystem::path& path);

}  // namespace telar
