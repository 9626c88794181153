#include "telar/observe/service_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "io/temp_folder.h"

namespace telar {
namespace {

/// A pipe that is full until somebody reads it.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(pipe2(ends_.data(), O_NONBLOCK), 0);
    const std::string bytes(4096, '-');
    while (write(ends_[1], bytes.data(), bytes.size()) > 0) {
    }
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ(fcntl(ends_[1], F_SETFL, 0), 0);
    EXPECT_EQ(fcntl(ends_[0], F_SETFL, 0), 0);
  }
  ~FullPipe() {
    close(ends_[0]);
    if (ends_[1] >= 0) close(ends_[1]);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  int writer() const { return ends_[1]; }
  /// Reads until this text has come.
  std::string read_until(const std::string& end) {
    std::string all;
    std::array<char, 4096> some{};
    while (all.find(end) == std::string::npos) {
      const ssize_t count = read(ends_[0], some.data(), some.size());
      if (count <= 0) break;
      all.append(some.data(), static_cast<size_t>(count));
    }
    return all;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

TEST(ServiceLog, WritesLinesInTheirOrderWithTheTime) {
  const test::TempFolder folder;
  const int file = open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ServiceLog log(file);
  log.line("first");
  log.line("second");
  EXPECT_EQ(log.finish(143), 143);
  close(file);
  const std::string text = test::read_text(folder / "log");
  ASSERT_EQ(text.size(), std::string("00:00:00 first\n00:00:00 second\n").size()) << text;
  EXPECT_EQ(text.substr(8, 7), " first\n");
  EXPECT_EQ(text.substr(23), " second\n");
}

TEST(ServiceLog, NobodyWaitsForAReaderAndWhatIsDroppedIsCounted) {
  FullPipe pipe;
  ServiceLog log(pipe.writer());
  // One line is with the thread, or none if it has not started.
  const size_t lines = ServiceLog::kMostLines + 51;
  for (size_t i = 0; i < lines; ++i) log.line("somebody knocks");
  const std::string text = pipe.read_until("nobody read this log");
  EXPECT_TRUE(text.find("(50 lines were dropped") != std::string::npos ||
              text.find("(51 lines were dropped") != std::string::npos)
      << text.substr(text.size() - 100);
  log.line("and again");
  EXPECT_NE(pipe.read_until("and again\n").find("and again"), std::string::npos);
}

TEST(ServiceLog, TheEndOfAServiceDoesNotWaitForAReaderForEver) {
  FullPipe pipe;
  ServiceLog log(pipe.writer());
  log.line("ending");
  EXPECT_EQ(log.finish(0), 0);
  pipe.read_until("ending\n");  // so that the log's thread ends
}

TEST(ServiceLog, AFullDiskIsAnError) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ServiceLog log(full);
  log.line("lost");
  testing::internal::CaptureStderr();
  EXPECT_EQ(log.finish(0), 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("No space left on device"), std::string::npos);
  close(full);
}

}  // namespace
}  // namespace telar
