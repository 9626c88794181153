#include "telar/weave/project.h"

#include <algorithm>
#include <map>
#include <optional>

#include "telar/core/error.h"

namespace telar::weave {

namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

class Loader {
 public:
  explicit Loader(const Request& request) : request_(request) {}

  std::vector<ProjectFile> load() {
    visit(request_.file);
    return std::move(files_);
  }

 private:
  /// The contents of a file of the project, read once; nothing if it does not exist.
  const std::optional<std::string>& bytes_of(const std::string& path) {
    const auto known = bytes_.find(path);
    if (known != bytes_.end()) return known->second;
    return bytes_[path] = path == request_.file ? request_.bytes : request_.read(path);
  }

  void visit(const std::string& path) {
    if (std::find(visited_.begin(), visited_.end(), path) != visited_.end()) return;
    visited_.push_back(path);
    ProjectFile file;
    file.name = joined(request_.project, path);
    file.path = path;
    file.bytes = *bytes_of(path);
    file.source = decode(file.name, file.bytes);
    const Tree tree = parse({{file.name, path, file.source.text}});
    walk(*tree.root(), [&](const Node& node) {
      if (path != request_.file && is_main_part(node)) return false;
      if (node.is(Kind::import) || node.is(Kind::import_from)) visit_imported(path, node);
      return true;
    });
    files_.push_back(std::move(file));
  }

  /// The code that an imported file runs only as a script.
  static bool is_main_part(const Node& node) {
    if (!node.is(Kind::if_) || !node.child("test")->is(Kind::compare)) return false;
    const Node* left = node.child("test")->child("left");
    return left->is(Kind::name) && left->text == "__name__";
  }

  void visit_imported(const std::string& importer, const Node& statement) {
    for (const Node* alias : statement.list("names")) {
      const bool from = statement.is(Kind::import_from);
      const std::string dotted(from ? statement.text : alias->text);
      for (const std::string& path : module_paths(importer, request_.file, dotted, statement.level)) {
        bool found = visit_module(path);
        if (from && visit_module(joined(path, std::string(alias->text)))) found = true;
        if (!found) continue;
        // Python imports the enclosing packages first.
        for (std::string around = folder_of(path); !around.empty(); around = folder_of(around))
          visit_module(around);
        break;
      }
    }
  }

  bool visit_module(const std::string& path) {
    const std::string file =
        module_file(path, [&](const std::string& one) { return bytes_of(one).has_value(); });
    if (file.empty()) return false;
    visit(file);
    return true;
  }

  const Request& request_;
  std::map<std::string, std::optional<std::string>> bytes_;
  std::vector<std::string> visited_;
  std::vector<ProjectFile> files_;
};

}  // namespace

std::string joined(const std::string& folder, const std::string& path) {
  if (folder.empty() || path.empty()) return folder + path;
  return folder + "/" + path;
}

std::vector<std::string> module_paths(const std::string& importer, const std::string& script,
                                      const std::string& dotted, int level) {
  std::string path = dotted;
  std::replace(path.begin(), path.end(), '.', '/');
  if (level > 0) {
    std::string folder = folder_of(importer);
    for (int up = 1; up < level; ++up) folder = folder_of(folder);
    return {joined(folder, path)};
  }
  const std::string beside = folder_of(script);
  if (beside.empty()) return {path};
  return {joined(beside, path), path};
}

std::string module_file(const std::string& path, const std::function<bool(const std::string&)>& is_there) {
  if (!path.empty() && is_there(path + ".py")) return path + ".py";
  const std::string package = joined(path, "__init__.py");
  return is_there(package) ? package : std::string();
}

std::vector<ProjectFile> load_project(const Request& request) { return Loader(request).load(); }

}  // namespace telar::weave
