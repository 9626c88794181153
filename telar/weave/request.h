#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace telar::weave {

/// The arguments of the weave module.
struct Request {
  std::string file;     ///< for messages; in a project, its path within the project
  std::string bytes;    ///< the contents of the file
  std::string project;  ///< the project's folder, for messages; empty for a single script
  bool is_project = false;
  /// The contents of a file by its path within the project (for a single script: relative to its folder);
  /// nothing if the file does not exist.
  std::function<std::optional<std::string>(const std::string& path)> read;
  std::string target;  ///< ddp, horovod, tf-distribute, telar; empty: ddp for PyTorch, horovod for Keras
  std::string telar_options;  ///< of the target telar: the strategy and its options, a dictionary of Python
  bool keep_global_batch = false;
  bool divide_epochs = false;     ///< all samples in each process, fewer epochs (Horovod, ddp)
  int warmup_epochs = 0;          ///< over which the learning rate grows (Horovod, ddp)
  bool share_evaluation = false;  ///< every n-th batch in each process, sums added up (PyTorch)
  bool only_training = false;     ///< leave numbers that are only shown and cannot be joined (PyTorch)
  bool describe = false;          ///< return the program as JSON instead of the woven file
  bool diff = false;              ///< return the diff
  bool colour = false;            ///< colour the diff
};

/// A changed file of a project.
struct WovenFile {
  std::string path;  ///< within the project
  std::string bytes;
};

struct Reply {
  enum class Kind { woven, already_parallel, refused, described };
  Kind kind = Kind::woven;
  std::string bytes;  ///< the woven file, in the encoding of the input; the input itself if already parallel
  std::vector<WovenFile> files;  ///< the changed files, including the script
  std::string diff;
  std::string explanation;  ///< one line for each edit
  std::string notes;        ///< one line for each thing that was left as it is, by --only-training
  std::string message;      ///< refused: file, line, construct, decision; already parallel: the reason
  std::string json;
  std::string target;          ///< requested or chosen
  bool is_pytorch = false;     ///< and not Keras or TensorFlow
  bool divides_steps = false;  ///< the processes divide the samples of each step; the learning rate stays
};

/// The type of the function that the module exports as kEntry. Throws telar::Error.
using Entry = void (*)(const Request& request, Reply& reply);
constexpr const char* kEntry = "telar_weave";

}  // namespace telar::weave
