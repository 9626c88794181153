#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/weave/python.h"
#include "telar/weave/request.h"

namespace telar::weave {

/// A file of a program, as read.
struct ProjectFile {
  std::string name;  ///< for messages
  std::string path;  ///< within the project
  std::string bytes;
  SourceText source;
};

/// The script and the files of its project that it imports, directly or over others; each behind those that it imports, the
/// script last. Throws Error (user) for a file that is not readable as Python.
std::vector<ProjectFile> load_project(const Request& request);

/// `folder/path`, or the one of both that is not empty.
std::string joined(const std::string& folder, const std::string& path);

/// What an import may mean within a project: paths without their ending, "models/resnet", in the order in which Python looks.
/// A level above 0 is the number of dots before the name. `importer`, `script`: paths of the importing file and of the script
/// that is run, from whose folder Python imports.
std::vector<std::string> module_paths(const std::string& importer, const std::string& script,
                                      const std::string& dotted, int level);

/// The file of such a module: "models/resnet.py" or "models/resnet/__init__.py", whichever is there; empty when neither is.
std::string module_file(const std::string& path, const std::function<bool(const std::string&)>& is_there);

}  // namespace telar::weave
