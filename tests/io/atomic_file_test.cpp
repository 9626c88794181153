#include "telar/io/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "io/temp_folder.h"
#include "telar/core/error.h"

namespace telar {
namespace {

using test::read_text;
using test::TempFolder;
using test::write_text;

size_t entries_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

/// Runs `work(descriptor)` in a child process, and kills it once it has written a byte to the descriptor.
template <typename Work>
void run_and_kill(Work work) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    work([&] {
      if (::write(ready[1], "r", 1) == 1) ::pause();
    });
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(AtomicFile, ReplacesTheOldFileOnlyAtCommit) {
  TempFolder folder;
  write_text(folder / "a.txt", "old");
  AtomicFile file(folder / "a.txt");
  file.write(std::string_view("new"));
  EXPECT_EQ(read_text(folder / "a.txt"), "old");
  file.commit();
  EXPECT_EQ(read_text(folder / "a.txt"), "new");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(AtomicFile, AMissingFolderIsAnErrorThatNamesTheFileItself) {
  const TempFolder folder;
  for (const bool is_folder : {false, true}) {
    try {
      is_folder ? void(AtomicFolder(folder / "none" / "a")) : void(AtomicFile(folder / "none" / "a"));
      ADD_FAILURE();
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find((folder / "none" / "a").string() + ":"), std::string::npos) << text;
    }
  }
}

TEST(AtomicFile, WithoutCommitNothingRemains) {
  TempFolder folder;
  { AtomicFile(folder / "a.txt").write(std::string_view("half")); }
  EXPECT_EQ(entries_in(folder.path()), 0U);
}

TEST(AtomicFile, MakesTheFileThatALinkNames) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "in");
  std::filesystem::create_symlink("in/second", folder / "first");
  std::filesystem::create_symlink("real.txt", folder / "in/second");
  write_file(folder / "first", "text");
  EXPECT_EQ(read_text(folder / "in/real.txt"), "text");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "in/second"));
}

TEST(AtomicFile, FollowsASymbolicLink) {
  TempFolder folder;
  write_text(folder / "real.txt", "old");
  std::filesystem::create_symlink("real.txt", folder / "link.txt");
  write_file(folder / "link.txt", "new");
  EXPECT_EQ(read_text(folder / "real.txt"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.txt"));
}

TEST(AtomicFile, RefusesTargetsThatAreNotFiles) {
  EXPECT_THROW(AtomicFile("/dev/full"), Error);
  TempFolder folder;
  EXPECT_THROW(AtomicFile(folder.path()), Error);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(AtomicFile, TwoWritersOfOneFileDoNotMix) {
  TempFolder folder;
  const AtomicFile first(folder / "a.txt");
  EXPECT_THROW(AtomicFile(folder / "a.txt"), Error);
}

TEST(OutputFile, AFullDeviceIsAnErrorWithPathAndReason) {
  OutputFile file("/dev/full", OutputFile::Mode::append);
  try {
    file.write(std::string_view("x"));
    FAIL() << "a byte was written to a full device";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::user);
    EXPECT_NE(std::string(error.what()).find("cannot write /dev/full: No space left on device"),
              std::string::npos)
        << error.what();
  }
}

/// A file system of 64 KiB; skips the test if it cannot be mounted.
class FullDisk : public testing::Test {
 protected:
  void SetUp() override {
    if (::mount("none", folder_.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
      GTEST_SKIP() << "NOT TESTED: mounting a small file system needs root";
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) ::umount(folder_.path().c_str());
  }
  TempFolder folder_;
  bool mounted_ = false;
};

TEST_F(FullDisk, KeepsTheOldFileAndLeavesNoTemporaryOne) {
  write_file(folder_ / "a.txt", "old");
  try {
    write_file(folder_ / "a.txt", std::string(100'000, 'x'));
    FAIL() << "100,000 bytes were written to 64 KiB";
  } catch (const Error& error) {
    const std::string sentence = error.what();
    EXPECT_EQ(error.kind(), Error::Kind::user);
    EXPECT_NE(sentence.find("a.txt"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("No space left on device"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("free on that disk"), std::string::npos) << sentence;
  }
  EXPECT_EQ(read_text(folder_ / "a.txt"), "old");
  EXPECT_EQ(entries_in(folder_.path()), 1U);
}

TEST_F(FullDisk, LeavesNoIncompleteFolder) {
  EXPECT_THROW(
      {
        AtomicFolder folder(folder_ / "step-1");
        folder.write("small", "fits");
        folder.write("large", std::string(100'000, 'x'));
        folder.commit();
      },
      Error);
  EXPECT_EQ(entries_in(folder_.path()), 0U);
}

TEST(AtomicFolder, AppearsCompleteAtCommit) {
  TempFolder parent;
  AtomicFolder folder(parent / "step-1/");
  folder.write("a", "1");
  folder.create("b").write(std::string_view("2"));
  EXPECT_FALSE(std::filesystem::exists(parent / "step-1"));
  folder.commit();
  EXPECT_EQ(read_text(parent / "step-1/a"), "1");
  EXPECT_EQ(read_text(parent / "step-1/b"), "2");
  EXPECT_EQ(entries_in(parent.path()), 1U);
}

TEST(AtomicFolder, ReplacesAFolderAtOnce) {
  const TempFolder parent;
  for (const char* name : {"old", "new"}) {
    AtomicFolder folder(parent / "step-1", true);
    folder.write(name, name);
    folder.commit();
  }
  EXPECT_EQ(entries_in(parent.path()), 1U);
  EXPECT_EQ(entries_in(parent / "step-1"), 1U);
  EXPECT_EQ(read_text(parent / "step-1" / "new"), "new");
}

TEST(AtomicFolder, NeverOverwritesAFolder) {
  TempFolder parent;
  write_text(parent / "step-1/a", "old");
  EXPECT_THROW(AtomicFolder(parent / "step-1"), Error);
  AtomicFolder late(parent / "step-2");
  write_text(parent / "step-2/a", "somebody else's");
  EXPECT_THROW(late.commit(), Error);
  EXPECT_EQ(read_text(parent / "step-2/a"), "somebody else's");
}

TEST(Leftovers, OfAKilledProcessAreRemovedAndOthersKept) {
  TempFolder parent;
  write_text(parent / "finished/a", "1");
  write_text(parent / "notes.tmp-draft", "a user's file");
  run_and_kill([&](auto wait_for_death) {
    AtomicFolder folder(parent / "step-1");
    folder.write("a", "half");
    AtomicFile file(parent / "b");
    wait_for_death();
  });
  ASSERT_EQ(entries_in(parent.path()), 4U);
  const AtomicFolder alive(parent / "step-2");

  EXPECT_EQ(remove_leftovers(parent.path()), 2);
  EXPECT_EQ(entries_in(parent.path()), 3U);
  EXPECT_TRUE(std::filesystem::exists(alive.path()))
      << "a folder that is being written was removed as a leftover";
  EXPECT_EQ(remove_leftovers(parent / "no such folder"), 0);
}

TEST(Leftovers, WithOurOwnProcessIdAreReplaced) {
  // In a container every run may have process id 1.
  TempFolder parent;
  const std::string mine = ".tmp-" + std::to_string(::getpid());
  write_text(parent / ("step-1" + mine + "/old"), "from a killed run");
  write_text(parent / ("a.txt" + mine), "a long text from a killed run");
  AtomicFolder folder(parent / "step-1");
  folder.write("new", "1");
  folder.commit();
  write_file(parent / "a.txt", "short");
  EXPECT_EQ(entries_in(parent / "step-1"), 1U);
  EXPECT_EQ(read_text(parent / "a.txt"), "short");
}

}  // namespace
}  // namespace telar
