#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "io/temp_folder.h"

namespace telar::test {

/// Programs of these names come before those of the PATH, and do what they do after some words of the shell.
class Programs {
 public:
  explicit Programs(const std::filesystem::path& folder)
      : folder_(folder / "programs"),
        path_(std::getenv("PATH")) {  // NOLINT(concurrency-mt-unsafe): one thread
    std::filesystem::create_directory(folder_);
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~Programs() { ::setenv("PATH", path_.c_str(), 1); }  // NOLINT(concurrency-mt-unsafe)
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  void replace(const std::string& name, const std::string& before) const {
    const std::filesystem::path file = folder_ / name;
    test::write_text(file, "#!/bin/sh\n" + before + "\nexec env PATH='" + path_ + "' " + name + " \"$@\"\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

 private:
  std::filesystem::path folder_;
  std::string path_;
};

}  // namespace telar::test
