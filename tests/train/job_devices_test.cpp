#include "telar/train/job_devices.h"

#include <gtest/gtest.h>

namespace telar {
namespace {

TEST(JobDevices, AProcessUsesTheGpuOfItsIndexByDefault) {
  for (const char* any : {"cuda", "gpu"}) {
    EXPECT_EQ(device_named(any, 0, 4).kind, "cuda:0");
    EXPECT_EQ(device_named(any, 3, 4).kind, "cuda:3");
    EXPECT_EQ(device_named(any, 5, 4).kind, "cuda:1") << "there are more processes than GPUs";
    EXPECT_EQ(device_named(any, 5, 1).kind, "cuda:0") << "the process sees only this GPU";
    EXPECT_EQ(device_named(any, 2, 0).kind, "cuda:0") << "a GPU that does not exist is reported later";
  }
  EXPECT_EQ(device_named("cuda:2", 1, 4).kind, "cuda:2");
  EXPECT_EQ(device_named("cpu", 1, 4).kind, "cpu");
}

}  // namespace
}  // namespace telar
