#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace telar::weave {

/// What `telar weave` asks of the module that it loads.
struct Request {
  std::string file;     ///< for messages; of a project its path within it
  std::string bytes;    ///< of the file
  std::string project;  ///< its folder, for messages; empty: the script alone
  bool is_project = false;
  /// The bytes of a file by its path within the project (of a script alone: by its path from the script's folder); nothing when
  /// there is none.
  std::function<std::optional<std::string>(const std::string& path)> read;
  std::string target;  ///< ddp, horovod, tf-distribute; empty: ddp for PyTorch, horovod for Keras
  bool keep_global_batch = false;
  bool divide_epochs = false;     ///< all samples in each process, epochs divided (Horovod, ddp)
  int warmup_epochs = 0;          ///< over which the learning rate grows (Horovod, ddp)
  bool share_evaluation = false;  ///< every n-th batch in each process, figures added up (PyTorch)
  bool describe = false;          ///< the program as JSON instead of the woven file
  bool diff = false;              ///< asked for
  bool colour = false;            ///< of the diff
};

/// A file of a project that was changed.
struct WovenFile {
  std::string path;  ///< within the project
  std::string bytes;
};

struct Reply {
  enum class Kind { woven, already_parallel, refused, described };
  Kind kind = Kind::woven;
  std::string
      bytes;  ///< of the woven file, in the encoding of the input; the input's own when already parallel
  std::vector<WovenFile> files;  ///< of a project: those that are changed, the script among them
  std::string diff;
  std::string explanation;  ///< a line for each edit
  std::string message;  ///< when refused: file, line, construct and decision; when already parallel: by what
  std::string json;
  std::string target;  ///< that was asked for or chosen
};

/// The function that the module exports under kEntry. Throws telar::Error.
using Entry = void (*)(const Request& request, Reply& reply);
constexpr const char* kEntry = "telar_weave";

}  // namespace telar::weave
