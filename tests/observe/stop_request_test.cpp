#include "telar/observe/stop_request.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "telar/core/error.h"

namespace telar {
namespace {

TEST(StopRequest, TheFirstSignalRaisesItAndTheProcessContinues) {
  const StopRequest stop;
  EXPECT_FALSE(stop.requested());
  ::raise(SIGINT);
  EXPECT_TRUE(stop.requested());
  EXPECT_EQ(stop.signal_number(), SIGINT);
}

TEST(StopRequest, AlsoHandlesTermination) {
  const StopRequest stop;
  ::raise(SIGTERM);
  EXPECT_EQ(stop.signal_number(), SIGTERM);
}

TEST(StopRequest, ASecondSignalEndsTheProcess) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const StopRequest stop;
    ::raise(SIGINT);
    ::raise(SIGINT);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

TEST(StopRequest, RestoresTheFormerHandlers) {
  std::signal(SIGINT, SIG_IGN);
  { const StopRequest stop; }
  EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_IGN);
}

TEST(StopRequest, IsResetEachTimeAndUnique) {
  {
    const StopRequest stop;
    ::raise(SIGINT);
  }
  const StopRequest stop;
  EXPECT_FALSE(stop.requested());
  EXPECT_THROW(StopRequest(), Error);
}

}  // namespace
}  // namespace telar
