#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace telar {

/// A job that was written by looking at the samples, for a person to read and change.
struct JobDraft {
  std::string text;                   ///< YAML with comments
  std::vector<std::string> problems;  ///< what must be mended, or was only guessed; sentences
};

/// A job for samples of a source that can tell it (SourceType::draft). `label`: of a table, the name of the
/// label's column; empty: it is guessed. Throws Error (user) if the path is of no such source, or cannot be
/// read.
JobDraft draft_job(const std::filesystem::path& data, const std::string& label);

}  // namespace telar
