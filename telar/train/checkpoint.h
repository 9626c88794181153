#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "telar/runtime/session.h"
#include "telar/train/training_state.h"

namespace telar {

/// A checkpoint is a folder "step-00001234" that appears whole or not at all:
///   model.safetensors      parameters by their own names, canonical layout: PyTorch and torchvision can read them
///   optimizer.safetensors  optimizer state, "momentum/conv1.weight"
///   state.json             the training state, and length and CRC-32 of every other file
/// and further small files that its writer wants with it (the job, what a sample looks like).
using ExtraFiles = std::map<std::string, std::string>;

/// "FOLDER/step-00001234".
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);

/// Throws Error (run) when it cannot be written (a full disk); nothing is then left of it.
void write_checkpoint(const std::filesystem::path& path, const Session& session, const TrainingState& state,
                      const ExtraFiles& extra = {});

/// The complete checkpoints in a folder, newest first. They may be damaged all the same.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

/// Reads every byte. Throws Error (user) naming the file that is missing, shortened or changed.
TrainingState verify_checkpoint(const std::filesystem::path& path);

/// The newest checkpoint that is whole, and for each newer one a sentence why it was passed over. No checkpoint at all:
/// empty. Throws Error (user) when there are some and all are damaged.
struct FoundCheckpoint {
  std::filesystem::path path;
  TrainingState state;
  std::vector<std::string> warnings;
};
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder);

/// Puts a checkpoint's parameters into the session. Throws Error (user) when it is another model's, naming the first tensors that
/// differ; the session is then unchanged.
void load_parameters(const std::filesystem::path& path, Session& session);
/// The same with the optimizer state.
void load_all(const std::filesystem::path& path, Session& session);

/// Removes all checkpoints but the `keep` newest and the one of step `best`.
void remove_old_checkpoints(const std::filesystem::path& folder, int64_t keep, int64_t best);

/// The whole of a text file of a checkpoint. Throws Error (user) for one that is missing.
std::string read_checkpoint_text(const std::filesystem::path& path);

}  // namespace telar
