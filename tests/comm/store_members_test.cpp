#include "telar/comm/store/store_members.h"

#include <gtest/gtest.h>

namespace telar {
namespace {

/// As when a worker is lost together with the head, and the next head has never heard of it.
TEST(StoreMembers, OneThatNeverCameIsWaitedForOnce) {
  StoreMembers members(std::chrono::hours(1));
  const StoreClock::time_point now = StoreClock::now();
  EXPECT_FALSE(members.given_up(3, 1, now));
  EXPECT_TRUE(members.given_up(3, 1, now - std::chrono::hours(1)));
  EXPECT_TRUE(members.given_up(3, 1, now)) << "for the next range";
  members.arrived(3, 2);
  EXPECT_TRUE(members.given_up(3, 1, now)) << "a round before its own";
  EXPECT_FALSE(members.given_up(3, 2, now));
}

}  // namespace
}  // namespace telar
