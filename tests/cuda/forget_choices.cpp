#include "cuda/forget_choices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "telar/io/temporary_folder.h"

namespace telar::test {

namespace {

/// Where this program keeps its choices.
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

}  // namespace telar::test
