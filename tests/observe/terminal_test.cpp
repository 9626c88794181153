#include "telar/observe/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

namespace telar {
namespace {

using Variables = std::map<std::string, std::string>;

/// The result of `work` in a child process.
bool answers_yes(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 1 : 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

class Terminal : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ignored{};
    if (::openpty(ignored.data(), &users_, nullptr, nullptr, nullptr) != 0 ||
        ::openpty(&ignored[1], &mpiruns_, nullptr, nullptr, nullptr) != 0)
      GTEST_SKIP() << "NOT TESTED: this machine gives no pseudo-terminals";
    file_ = ::open("/dev/null", O_WRONLY);
  }

  /// What `asked` answers in a process that writes to `own`, started by one that writes to `starter`.
  static bool answer(bool (*asked)(int), int starter, int own, const Variables& variables) {
    return answers_yes([&] {
      ::dup2(starter, STDOUT_FILENO);
      return answers_yes([&] {
        ::dup2(own, STDOUT_FILENO);
        for (const char* name : {"NO_COLOR", "OMPI_COMM_WORLD_SIZE"}) ::unsetenv(name);
        ::setenv("TERM", "xterm", 1);
        for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
        return asked(STDOUT_FILENO);
      });
    });
  }

  int users_ = -1;
  int mpiruns_ = -1;
  int file_ = -1;
};

TEST_F(Terminal, IsRecognised) {
  EXPECT_TRUE(answer(can_redraw, users_, users_, {}));
  EXPECT_TRUE(answer(can_colour, users_, users_, {}));
  EXPECT_FALSE(answer(can_redraw, users_, file_, {}));
  EXPECT_TRUE(answer(can_redraw, file_, users_, {})) << "only mpirun copies to its own output";
}

TEST_F(Terminal, EscapeCodesCanBeDeclined) {
  EXPECT_FALSE(answer(can_redraw, users_, users_, {{"TERM", "dumb"}}));
  EXPECT_FALSE(answer(can_colour, users_, users_, {{"NO_COLOR", "1"}}));
  EXPECT_TRUE(answer(can_redraw, users_, users_, {{"NO_COLOR", "1"}}));
  EXPECT_TRUE(answer(can_colour, users_, users_, {{"NO_COLOR", ""}}));
}

TEST_F(Terminal, OfMpirunCountsOnlyIfMpirunWritesToOne) {
  const Variables mpi = {{"OMPI_COMM_WORLD_SIZE", "2"}};
  EXPECT_TRUE(answer(can_redraw, users_, mpiruns_, mpi));
  EXPECT_FALSE(answer(can_redraw, file_, mpiruns_, mpi));
  EXPECT_FALSE(answer(can_colour, file_, mpiruns_, mpi));
}

}  // namespace
}  // namespace telar
