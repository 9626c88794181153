#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cli/command.h"
#include "support/paths.h"
#include "support/sentences.h"

namespace telar::test {

/// Runs `telar weave` in a temporary folder. script_ is the text of the corpus's mlp_basic.py.
class WeaveCase : public testing::Test {
 protected:
  CommandResult telar(const std::string& arguments) const { return telar_in(folder_.path(), arguments); }
  CommandResult weave(const std::string& script, const std::string& arguments = "") const {
    write_text(folder_ / "train.py", script);
    return telar("weave " + arguments + " train.py");
  }

  TempFolder folder_;
#ifdef TELAR_WEAVE
  std::string script_ = read_text(std::filesystem::path(weave_corpus()) / "mlp_basic.py");
#endif
};

}  // namespace telar::test
