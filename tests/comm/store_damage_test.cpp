#include <unistd.h>

#include <fstream>

#include "comm/relay.h"
#include "io/temp_folder.h"
#include "store_fixture.h"

namespace telar {
namespace {

constexpr size_t kDamageFloats = 600'000;
constexpr size_t kFormatDigit = 11;  // in "TELARSTORE 3"

class StoreDamage : public StoreTest {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("telar-damage-{}-{}", getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    newest_ = folder_ / "store.snapshot";
    previous_ = folder_ / "store.snapshot.previous";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Adds 1 to every parameter on a server of this folder, which then saves a snapshot.
  float add_one(size_t floats) {
    const auto server = serve("127.0.0.1:0", folder_);
    const auto client = attached(*server, floats);
    fill(*client, -1);
    client->start(whole(*client));
    client->finish();
    return client->incoming()[floats - 1];
  }
  static void overwrite(const std::filesystem::path& path, size_t at, const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }
  std::string refusal() { return refusal_with(plain_updates()); }
  std::string refusal_with(const StoreUpdateFactory& updates) {
    StoreServerOptions options = server_options("127.0.0.1:0", folder_);
    options.make_update = updates;
    try {
      const StoreServer server(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::user);
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
  std::filesystem::path newest_;
  std::filesystem::path previous_;
};

TEST_F(StoreDamage, ADamagedSnapshotGivesWayToTheOneBefore) {
  add_one(kDamageFloats);
  EXPECT_EQ(add_one(kDamageFloats), 2);
  EXPECT_TRUE(std::filesystem::exists(previous_));
  const size_t size = std::filesystem::file_size(newest_);
  overwrite(newest_, size / 2, "\xff\xff\x7f\x7f");
  EXPECT_EQ(add_one(kDamageFloats), 2) << "the snapshot before had 1";
  EXPECT_TRUE(
      log_.hears("The newest snapshot is damaged and was renamed to " + newest_.string() + ".damaged"));
  EXPECT_TRUE(log_.hears("the checksum of block 1 is")) << log_.all();
  EXPECT_TRUE(log_.hears("Continues from the snapshot " + previous_.string()));

  // The damaged one has not become the one before.
  overwrite(newest_, size / 2, "\xff\xff\x7f\x7f");
  EXPECT_EQ(add_one(kDamageFloats), 2);
}

TEST_F(StoreDamage, WithoutAWholeSnapshotAServerDoesNotStart) {
  add_one(kDamageFloats);
  EXPECT_EQ(add_one(kDamageFloats), 2);
  overwrite(newest_, 1000, "\xff\xff\x7f\x7f");
  overwrite(previous_, 2000, "\xff\xff\x7f\x7f");
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("No snapshot of this parameter server can be used"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(newest_.string() + " is not a complete snapshot"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(previous_.string() + " is not a complete snapshot"), std::string::npos) << sentence;
}

TEST_F(StoreDamage, AServerThatDiedBetweenTwoSnapshotsContinuesFromTheOneBefore) {
  add_one(64);
  std::filesystem::rename(newest_, previous_);
  EXPECT_EQ(add_one(64), 2);
}

/// Has more state than PlainUpdate.
class OtherUpdate : public PlainUpdate {
 public:
  const std::vector<std::string>& slots() const override { return slots_; }

 private:
  std::vector<std::string> slots_{"steps", "momentum"};
};

TEST_F(StoreDamage, AWholeSnapshotThatDoesNotFitIsNotTakenForADamagedOne) {
  add_one(64);
  add_one(64);
  const std::vector<std::pair<StoreUpdateFactory, std::string>> others{
      {[](const std::string&, const StoreLayout&) -> std::unique_ptr<StoreUpdate> {
         throw user_error("the optimizer is unknown here");
       },
       "the optimizer is unknown here"},
      {[](const std::string&, const StoreLayout&) { return std::make_unique<OtherUpdate>(); },
       "its optimizer has other state here"}};
  for (const auto& [updates, why] : others) {
    const std::string sentence = refusal_with(updates);
    EXPECT_NE(sentence.find("The snapshot " + newest_.string() +
                            " is not damaged, but this server cannot continue from it: " + why),
              std::string::npos)
        << sentence;
  }
  EXPECT_TRUE(std::filesystem::exists(newest_));
  EXPECT_EQ(log_.all().find(previous_.string()), std::string::npos) << log_.all();
  EXPECT_EQ(add_one(64), 3) << "nothing was renamed";
}

TEST_F(StoreDamage, ASnapshotOfAnotherReleaseIsNotTakenForADamagedOne) {
  add_one(64);
  add_one(64);
  overwrite(newest_, 0, "TELARSTORE 9\n");
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("has format 'TELARSTORE 9', but this release of telar reads 'TELARSTORE 3'"),
            std::string::npos)
      << sentence;
  overwrite(newest_, 0, "TELARSTORE 3\n");
  EXPECT_EQ(add_one(64), 3);
  overwrite(newest_, 0, "TELARSTORE ?\n");
  EXPECT_EQ(add_one(64), 3) << "the snapshot before is used";
}

TEST_F(StoreDamage, TheSnapshotOfAnotherJobDoesNotReplaceADamagedOne) {
  add_one(64);
  const std::string other = test::read_text(newest_);
  std::filesystem::remove_all(folder_);
  add_one(128);
  test::write_text(previous_, other);
  overwrite(newest_, std::filesystem::file_size(newest_) / 2, "\xff\xff\x7f\x7f");
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("and the one before, " + previous_.string() + ", is of another job or model"),
            std::string::npos)
      << sentence;
  EXPECT_TRUE(std::filesystem::exists(newest_));
}

TEST_F(StoreDamage, WhatCannotBeOpenedIsNotTakenForDamaged) {
  add_one(64);
  std::filesystem::rename(newest_, previous_);
  std::filesystem::create_directory(newest_);
  EXPECT_NE(refusal().find(newest_.string() + " is not a file"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_directory(newest_));
}

TEST_F(StoreDamage, NoByteOfASnapshotCanBeChanged) {
  add_one(64);
  std::filesystem::remove(previous_);
  std::ifstream file(newest_, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(good.size(), 64 * 2 * sizeof(float));
  for (size_t i = 0; i < good.size(); ++i) {
    overwrite(newest_, i, std::string(1, static_cast<char>(good[i] ^ 1)));
    const std::string sentence =
        i == kFormatDigit ? "has format 'TELARSTORE 2'" : "is not a complete snapshot";
    EXPECT_NE(refusal().find(sentence), std::string::npos) << "byte " << i;
    overwrite(newest_, i, std::string(1, good[i]));
  }
  std::filesystem::resize_file(newest_, good.size() + 1);
  EXPECT_NE(refusal().find("1 bytes follow its end"), std::string::npos);
}

TEST_F(StoreDamage, AFrameThatArrivesDamagedIsSentAgain) {
  const auto server = serve();
  attached(*server, kDamageFloats);
  test::Relay relay(server->address());
  StoreClientOptions options = client_options(*server, 3);
  options.address = relay.address();
  options.payload_checksums = true;
  SentenceLog sentences;
  options.say = sentences.say();
  StoreClient client(options);
  client.attach();
  fill(client, -1);
  float sum = 0;
  for (const bool to_server : {true, false, true, false}) {
    relay.damage_next(to_server);
    client.start(whole(client));
    const StoreReport report = client.finish();
    ++sum;
    EXPECT_EQ(report.lost_updates, 0);
    EXPECT_EQ(std::vector<float>(client.incoming().begin(), client.incoming().end()),
              std::vector<float>(kDamageFloats, sum));
  }
  EXPECT_TRUE(log_.hears("was refused: a damaged frame: the checksum of frame ")) << log_.all();
  EXPECT_TRUE(log_.hears("(member 3)")) << log_.all();
  EXPECT_TRUE(sentences.hears("The parameter server " + relay.address() + " was lost: The parameter server"))
      << sentences.all();
  EXPECT_TRUE(sentences.hears("sent a damaged frame: the checksum of frame ")) << sentences.all();
}

}  // namespace
}  // namespace telar
