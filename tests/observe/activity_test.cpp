#include "telar/observe/activity.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "io/temp_folder.h"

namespace telar {
namespace {

using namespace std::chrono_literals;

TEST(OthersActivity, IsBusyTimeWithoutOurOwn) {
  const test::TempFolder host;
  test::write_text(host / "proc/stat",
                   "cpu  1000 0 500 90000 10 0 0 0 0 0\ncpu0 500 0 250 45000 5 0 0 0 0 0\n");
  const OthersActivity others(host.path());
  std::this_thread::sleep_for(50ms);
  EXPECT_NEAR(others.processors(), 0, 0.01);
  // Others used 100 s, including 50 s that the hypervisor stole. Idle and I/O wait time does not count.
  test::write_text(host / "proc/stat", "cpu  6000 0 500 99000 999 0 0 5000 0 0\n");
  EXPECT_GT(others.processors(), 10);
}

TEST(OthersActivity, IsZeroWithoutProcStat) {
  const test::TempFolder host;
  const OthersActivity others(host.path());
  EXPECT_EQ(others.processors(), 0);
}

}  // namespace
}  // namespace telar
