#include "telar/comm/store/store_ledger.h"

#include <gtest/gtest.h>

#include "io/temp_folder.h"

namespace telar {
namespace {

class StoreLedgerTest : public ::testing::Test {
 protected:
  /// A server applies 7 updates and is killed; its snapshot has version 4.
  void be_killed() {
    StoreLedger ledger(folder_.path(), {});
    ledger.begin("job");
    for (int64_t version = 1; version <= 7; ++version) ledger.reached(version);
  }
  StoreLedger::Lost restart(const std::string& job = "job", int64_t version = 4) {
    StoreLedger ledger(folder_.path(), {});
    const StoreLedger::Lost lost = ledger.continue_from(job, version);
    losses_ = ledger.losses();
    return lost;
  }
  void expect_unknown(const StoreLedger::Lost& lost, const std::string& why) {
    EXPECT_FALSE(lost.updates.has_value());
    EXPECT_NE(lost.why.find(why), std::string::npos) << lost.why;
    EXPECT_EQ(losses_, (StoreLosses{.restarts = 1, .updates = 0, .unknown = 1}));
  }

  test::TempFolder folder_;
  std::filesystem::path file_ = folder_.path() / "store.updates";
  StoreLosses losses_;
};

TEST_F(StoreLedgerTest, CountsWhatASnapshotLacks) {
  be_killed();
  EXPECT_EQ(restart().updates, 3);
  EXPECT_EQ(losses_, (StoreLosses{.restarts = 1, .updates = 3, .unknown = 0}));
  EXPECT_EQ(restart().updates, 0) << "nothing happened since";
  EXPECT_EQ(losses_, (StoreLosses{.restarts = 2, .updates = 3, .unknown = 0}));
}

TEST_F(StoreLedgerTest, NoByteOfTheCountCanBeChanged) {
  be_killed();
  const std::string good = test::read_text(file_);
  ASSERT_EQ(good.size(), 48U);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 1);
    test::write_text(file_, bytes);
    expect_unknown(restart(), "store.updates is damaged");
  }
}

TEST_F(StoreLedgerTest, ATornOrMissingCountIsUnknown) {
  for (const size_t size : {size_t{0}, size_t{24}, size_t{47}}) {
    be_killed();
    std::filesystem::resize_file(file_, size);
    expect_unknown(restart(), "store.updates is damaged");
  }
  be_killed();
  std::filesystem::remove(file_);
  expect_unknown(restart(), "store.updates is missing");
}

TEST_F(StoreLedgerTest, ACountOfAnotherTimeOrJobIsUnknown) {
  be_killed();
  expect_unknown(restart("job", 8), "store.updates is older than the snapshot");
  be_killed();
  expect_unknown(restart("another"), "store.updates belongs to another job");
}

TEST_F(StoreLedgerTest, AfterAnUnknownLossTheNextOneIsCountedAgain) {
  be_killed();
  std::filesystem::remove(file_);
  {
    StoreLedger ledger(folder_.path(), {});
    ledger.continue_from("job", 4);
    ledger.reached(5);
    ledger.reached(6);
  }
  EXPECT_EQ(restart().updates, 2);
  EXPECT_EQ(losses_, (StoreLosses{.restarts = 2, .updates = 2, .unknown = 1}));
}

TEST_F(StoreLedgerTest, ACountThatCannotBeWrittenDoesNotStayBehind) {
  std::filesystem::create_symlink("/dev/full", file_);
  std::string said;
  StoreLedger ledger(folder_.path(), [&](const std::string& sentence) { said += sentence; });
  ledger.begin("job");
  EXPECT_NE(said.find("The count of updates cannot be written to " + file_.string()), std::string::npos)
      << said;
  EXPECT_FALSE(std::filesystem::is_symlink(file_));
  ledger.reached(7);
  EXPECT_EQ(restart().updates, 3) << "the disk has room again";
}

TEST(StoreLosses, WhatHasHappenedSinceIsTheDifferenceOrUnknown) {
  const StoreLosses before{.restarts = 2, .updates = 9, .unknown = 1};
  EXPECT_EQ((StoreLosses{.restarts = 4, .updates = 12, .unknown = 1}.since(before)),
            (StoreLosses{.restarts = 2, .updates = 3, .unknown = 0}));
  const StoreLosses unknown{.restarts = 1, .updates = 0, .unknown = 1};
  EXPECT_EQ((StoreLosses{.restarts = 1, .updates = 0, .unknown = 1}.since(before)), unknown);
  EXPECT_EQ((StoreLosses{.restarts = 3, .updates = 8, .unknown = 1}.since(before)), unknown);
}

}  // namespace
}  // namespace telar
