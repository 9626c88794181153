#include "telar/core/suggest.h"

#include <gtest/gtest.h>

namespace telar {
namespace {

TEST(Nearest, PrefersWordsOfOneFamilyToWordsThatOnlyLookAlike) {
  EXPECT_EQ(nearest("batch_size", {"batch_per", "evaluation_batch", "batch"}), "batch");
  EXPECT_EQ(nearest("lr", {"lr_decay", "name", "learning_rate"}), "learning_rate");
  EXPECT_EQ(nearest("mnist-fashion", {"mnist", "fashion-mnist"}), "fashion-mnist");
  EXPECT_EQ(nearest("val", {"path", "validation", "label"}), "validation");
}

TEST(Nearest, FindsTypingErrors) {
  EXPECT_EQ(nearest("mirored", {"single", "mirrored"}), "mirrored");
  EXPECT_EQ(nearest("optimiser", {"optimizer", "output"}), "optimizer");
  EXPECT_EQ(nearest("bacth", {"batch_per", "batch"}), "batch");
}

TEST(Nearest, DoesNotGuess) {
  EXPECT_EQ(nearest("xy", {"ab", "name"}), "");
  EXPECT_EQ(nearest("", {"a"}), "");
}

}  // namespace
}  // namespace telar
