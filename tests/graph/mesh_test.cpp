#include "telar/graph/mesh.h"

#include <gtest/gtest.h>

#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/graph/piece.h"

namespace telar {
namespace {

const Mesh kGrid({{"data", 2}, {"stage", 3}, {"model", 2}}, 4);

TEST(Mesh, NumbersWorkersByTheirCoordinatesTheLastAxisFastest) {
  EXPECT_EQ(kGrid.workers(), 12);
  for (int64_t w = 0; w < kGrid.workers(); ++w) {
    EXPECT_EQ(
        (kGrid.coordinate(w, "data") * 3 + kGrid.coordinate(w, "stage")) * 2 + kGrid.coordinate(w, "model"),
        w);
    EXPECT_EQ(kGrid.process_of(w), w / 3);
  }
  EXPECT_EQ(kGrid.size("stage"), 3);
  EXPECT_EQ(kGrid.size("depth"), 1) << "an axis that is not there has one point";
  EXPECT_EQ(kGrid.coordinate(11, "depth"), 0);
}

TEST(Mesh, GroupsWorkersThatDifferOnlyAlongSomeAxes) {
  EXPECT_EQ(kGrid.members(3, {"data"}), (std::vector<int>{3, 9}));
  EXPECT_EQ(kGrid.members(3, {"stage"}), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(kGrid.members(3, {"model"}), (std::vector<int>{2, 3}));
  EXPECT_EQ(kGrid.members(3, {"model", "data"}), (std::vector<int>{2, 3, 8, 9}));
  EXPECT_EQ(kGrid.members(3, {}), (std::vector<int>{3}));
}

// Along any axes, every worker is in one group, at its rank.
TEST(Mesh, GroupsAreAPartition) {
  for (const Axes& along : {Axes{}, Axes{"data"}, Axes{"stage"}, Axes{"model"}, Axes{"data", "model"},
                            Axes{"stage", "data"}, Axes{"data", "stage", "model"}}) {
    std::vector<std::vector<int>> groups(static_cast<size_t>(kGrid.workers() / kGrid.size(along)));
    for (int w = 0; w < kGrid.workers(); ++w) {
      const std::vector<int> members = kGrid.members(w, along);
      EXPECT_EQ(std::ssize(members), kGrid.size(along));
      EXPECT_EQ(members.at(static_cast<size_t>(kGrid.rank(w, along))), w);
      EXPECT_TRUE(std::ranges::is_sorted(members));
      std::vector<int>& known = groups.at(static_cast<size_t>(kGrid.group(w, along)));
      if (known.empty()) known = members;
      EXPECT_EQ(known, members);
    }
  }
}

TEST(Mesh, RefusesProcessesThatDoNotDivideIt) {
  test::expect_error(
      [] {
        Mesh({{"data", 3}}, 2);
      },
      {"3 workers cannot be divided among 2 processes"}, Error::Kind::run);
  test::expect_error([] { Mesh({{"data", 0}}, 1); }, {"'data' of a mesh has 0 workers"}, Error::Kind::run);
}

TEST(EqualParts, HaveTheLargerOnesFirst) {
  EXPECT_EQ(equal_parts(11, 4), (std::vector<int64_t>{0, 3, 6, 9, 11}));
  EXPECT_EQ(equal_parts(8, 4), (std::vector<int64_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(equal_parts(2, 3), (std::vector<int64_t>{0, 1, 2, 2}));
}

}  // namespace
}  // namespace telar
