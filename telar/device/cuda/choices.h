#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace telar::cuda {

/// Which algorithm was measured to be the fastest for what, on one kind of GPU with one version of the
/// libraries. Kept in a file, so that a job computes the same bits when it is started again, and starts
/// faster. Processes share the file: what one has appended first holds for all, as long as it exists. Not for
/// two threads at once.
class Choices {
 public:
  /// Those in this file, which need not exist. Lines that were cut off count for nothing.
  explicit Choices(std::filesystem::path file);

  /// The names of the algorithms that were chosen for `what`, in this order: the first that exists holds.
  /// Another may come from a version that named them otherwise, or from a line that was cut off.
  std::vector<std::string> known(const std::string& what) const;
  /// Adds one, behind those of other processes. Where the file cannot be written it holds for this process.
  /// Neither text has tabs or line ends.
  void keep(const std::string& what, const std::string& algorithm);

 private:
  void read();
  void add(const std::string& what, const std::string& algorithm);

  std::filesystem::path file_;
  std::map<std::string, std::vector<std::string>> known_;
};

/// The file for a GPU of this name with the libraries that are loaded.
std::filesystem::path choices_file(const std::string& gpu);

}  // namespace telar::cuda
