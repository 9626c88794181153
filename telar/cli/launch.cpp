#include "telar/cli/launch.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "telar/core/error.h"
#include "telar/io/atomic_file.h"

namespace telar::cli {

namespace {

namespace fs = std::filesystem;

/// A file that is gone when the launch is over.
class TemporaryScript {
 public:
  TemporaryScript(const fs::path& script, const std::string& text)
      : path_(script.parent_path() /
              (script.stem().string() + ".woven-" + std::to_string(::getpid()) + ".py")) {
    write_file(path_, text);
  }
  ~TemporaryScript() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TemporaryScript(const TemporaryScript&) = delete;
  TemporaryScript& operator=(const TemporaryScript&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

int launch(const std::string& script, const std::string& woven, const std::string& target, int processes,
           const std::vector<std::string>& arguments) {
  const TemporaryScript file(script, woven);
  const std::string count = std::to_string(processes);
  std::vector<std::string> words = {"python3",          "-m", "torch.distributed.run", "--standalone",
                                    "--nproc_per_node", count};
  if (target == "horovod") words = {"horovodrun", "-np", count, "python3"};
  words.push_back(file.path().string());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, pointers[0], nullptr, nullptr, pointers.data(), ::environ);
  if (failure != 0) {
    throw user_error("{} cannot be started ({}); install it, or start the woven script yourself (--output)",
                     words[0],
                     std::strerror(failure));  // NOLINT(concurrency-mt-unsafe): one thread
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace telar::cli
