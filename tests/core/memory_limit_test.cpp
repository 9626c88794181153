#include "telar/core/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "support/sanitizers.h"
#include "support/sentences.h"

namespace telar {
namespace {

using test::expect_error;

TEST(MemoryLimit, IsNamedWhenMemoryRunsOut) {
  if (test::kSanitized) GTEST_SKIP() << "the sanitizers need more memory";
  EXPECT_NO_THROW(require_free_memory(size_t{1} << 20));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = rlim_t{1} << 30;
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &lower), 0);
  const auto limit = memory_limit();
  expect_error(
      [] { require_free_memory(size_t{2} << 30); },
      {"not enough memory: 2048.0 MiB wanted; ulimit -d allows this process 1024 MiB; a smaller batch or model"},
      Error::Kind::run);
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->bytes, uint64_t{1} << 30);
  EXPECT_EQ(limit->name, "ulimit -d");
}

TEST(MemoryLimit, TheSystemsExceptionsAreSentences) {
  EXPECT_TRUE(test::says(as_error(std::bad_alloc()).what(), "not enough memory"));
  const std::system_error no_thread(EAGAIN, std::generic_category());
  EXPECT_TRUE(test::says(as_error(no_thread).what(), "a thread could not be started"));
  EXPECT_EQ(as_error(user_error("mine")).kind(), Error::Kind::user);
  EXPECT_EQ(as_error(std::runtime_error("theirs")).kind(), Error::Kind::run);
}

}  // namespace
}  // namespace telar
