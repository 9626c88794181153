#include "cuda/forget_choices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "telar/io/temporary_folder.h"

namespace telar::test {

namespace {

/// The folder in which this program keeps its choices.
std::unique_ptr<TemporaryFolder>& folder() {
  static std::unique_ptr<TemporaryFolder> kept;
  return kept;
}

class NothingChosen : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*test*/) override { forget_choices(); }
  void OnTestEnd(const testing::TestInfo& /*test*/) override { folder().reset(); }
};
[[maybe_unused]] const bool listens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NothingChosen);
  return true;
}();

}  // namespace

void forget_choices() {
  folder() = std::make_unique<TemporaryFolder>("telar-choices");
  ::setenv("XDG_CACHE_HOME", folder()->path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
}

void change_choices(
    const std::function<std::string(const std::string& what, const std::string& algorithm)>& chosen) {
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder()->path())) {
    if (!file.is_regular_file()) continue;
    std::ifstream lines(file.path());
    std::string changed;
    for (std::string line; std::getline(lines, line);) {
      const size_t tab = line.find('\t');
      const std::string what = line.substr(0, tab);
      changed += what + "\t" + chosen(what, line.substr(tab + 1)) + "\n";
    }
    std::ofstream(file.path()) << changed;
  }
}

}  // namespace telar::test
