#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace telar::cuda {

/// Which algorithm was measured to be the fastest for what, on one kind of GPU with one version of the libraries. Kept in a file, so that a
/// job computes the same bits when it is started again, and starts faster. Processes share the file: what one has appended first holds for
/// all. Not for two threads at once.
class Choices {
 public:
  /// Those in this file, which need not exist. Lines that were cut off count for nothing.
  explicit Choices(std::filesystem::path file);

  /// The name of the algorithm that was chosen for `what`; none when nothing was.
  std::optional<std::string> known(const std::string& what) const;
  /// Keeps it and returns the one that holds now, which is another process's when that was first. Where the file cannot be written it holds for
  /// this process. Neither text has tabs or line ends.
  std::string keep(const std::string& what, const std::string& algorithm);

 private:
  void read();

  std::filesystem::path file_;
  std::map<std::string, std::string> known_;
};

/// The file for a GPU of this name with the libraries that are loaded.
std::filesystem::path choices_file(const std::string& gpu);

}  // namespace telar::cuda
