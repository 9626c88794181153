#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/weave/python/parser.h"
#include "telar/weave/request.h"

namespace telar::weave {

/// A source file of a program.
struct ProjectFile {
  std::string name;  ///< for messages
  std::string path;  ///< within the project
  std::string bytes;
  SourceText source;
};

/// The script and the files of its project that it imports, directly or indirectly. Each file follows those
/// that it imports; the script is last. Throws Error (user) for a file that is not valid Python.
std::vector<ProjectFile> load_project(const Request& request);

/// `folder/path`, or `path` if the folder is empty, or `folder` if the path is.
std::string joined(const std::string& folder, const std::string& path);

/// The modules of a project that an import may refer to: paths without extension ("models/resnet"), in
/// Python's search order. `level`: the number of dots before the name. `importer`, `script`: the paths of the
/// importing file and of the script; Python imports from the script's folder.
std::vector<std::string> module_paths(const std::string& importer, const std::string& script,
                                      const std::string& dotted, int level);

/// The file of a module path: "models/resnet.py" or "models/resnet/__init__.py", whichever exists; empty if
/// neither does.
std::string module_file(const std::string& path, const std::function<bool(const std::string&)>& is_there);

}  // namespace telar::weave
