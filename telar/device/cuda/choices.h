#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace telar::cuda {

/// The fastest measured algorithm for each operation, on one model of GPU with one version of the libraries.
/// The choices are kept in a file. So a job that is started again computes the same bits, and starts faster.
/// Processes share the file: the first entry for an operation that names an existing algorithm applies to
/// all. Not thread-safe.
class Choices {
 public:
  /// Reads the choices from this file, which need not exist. Ignores truncated lines.
  explicit Choices(std::filesystem::path file);

  /// The names of the algorithms chosen for `what`, in the order of the file. The first one that exists
  /// applies. Others may come from a version that used other names, or from a truncated line.
  std::vector<std::string> known(const std::string& what) const;
  /// Adds a choice, after those of other processes. If the file cannot be written, the choice applies to this
  /// process only. Neither text contains tabs or line ends.
  void keep(const std::string& what, const std::string& algorithm);

 private:
  void read();
  void add(const std::string& what, const std::string& algorithm);

  std::filesystem::path file_;
  std::map<std::string, std::vector<std::string>> known_;
};

/// The file for this model of GPU and the loaded versions of the libraries.
std::filesystem::path choices_file(const std::string& gpu);

}  // namespace telar::cuda
