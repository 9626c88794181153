#include "telar/device/kernel_table.h"

#include <gtest/gtest.h>

namespace telar {
namespace {

struct CountedSteps {
  int steps = 0;
};
using CountingTable = KernelTable<CountedSteps>;

void add_one_step(CountedSteps& lowering, const Node& /*node*/) { ++lowering.steps; }

TEST(KernelTable, FindsAKernelByTheNameOfItsOperation) {
  CountingTable table;
  table.add("relu", add_one_step);
  table.add("add", [](CountedSteps&, const Node&) {});
  CountedSteps lowering;
  (*table.find("relu"))(lowering, Node{});
  EXPECT_EQ(lowering.steps, 1);
}

TEST(KernelTable, HasNothingForAnOperationThatTheDeviceCannotCompute) {
  CountingTable table;
  table.add("relu", add_one_step);
  EXPECT_EQ(table.find("relu_backward"), nullptr);
}

TEST(KernelTable, RefusesASecondKernelForAnOperation) {
  CountingTable table;
  table.add("relu", add_one_step);
  try {
    table.add("relu", add_one_step);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "operation 'relu' has two kernels on one device");
  }
}

}  // namespace
}  // namespace telar
