#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/core/attributes.h"

namespace telar {

/// An option of a source, with the value that its samples suggest.
struct DraftOption {
  std::string name;
  Attribute value;
  std::string comment{};
};

/// What a source suggests for a job, after a look at its samples.
struct SourceDraft {
  std::string described;  ///< "1460 rows, 80 columns"
  std::vector<DraftOption> options;
  int64_t samples = 0;
  bool classes = true;                     ///< labels are classes, not numbers to learn
  bool unequal = false;                    ///< some classes are rare (are_unequal())
  bool tests_elsewhere = false;            ///< an option names the test samples
  std::string model;                       ///< as YAML on one line
  std::vector<std::string> hints = {};     ///< sentences on what else may suit
  std::vector<std::string> problems = {};  ///< what must be mended, or was only guessed; sentences
};

/// Whether the largest class has more than three times as many samples as the smallest.
bool are_unequal(const std::vector<int64_t>& classes);

/// Of a table (CSV, perhaps compressed). `label`: the name of the label's column; empty: it is guessed by its
/// name, or the last one. Throws Error (user) for text that is no table.
SourceDraft draft_of_table(const std::string& file, const std::string& label);

/// Of a folder with one subfolder of pictures per class, or with such folders `train` and `test`. Throws
/// Error (user, run) like list_pictures().
SourceDraft draft_of_pictures(const std::string& folder);

}  // namespace telar
