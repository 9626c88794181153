#include "telar/cli/weave_verify.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "telar/cli/verify_harness.h"
#include "telar/cli/weave_launch.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"

namespace telar::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 5;
constexpr int kSeconds = 600;

/// A temporary folder with the harness and the woven files.
class Harness {
 public:
  Harness() {
    std::string name = (fs::temp_directory_path() / "telar-harness-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw run_error("no temporary folder can be created at {}", name);
    folder_ = name;
    for (const PythonFile& file : kVerifyHarness) {
      fs::create_directories((folder_ / file.path).parent_path());
      write_file(folder_ / file.path, file.text);
    }
  }
  ~Harness() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

/// What telar/weave/verify/verify.py reads.
nlohmann::json plan_of(const Verification& what, const VerifyArguments& arguments, const fs::path& folder) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  nlohmann::json woven = nlohmann::json::object();
  for (size_t i = 0; i < what.woven.size(); ++i) {
    const fs::path file = folder / ("woven" + std::to_string(i));
    write_file(file, what.woven[i].bytes);
    woven[what.woven[i].path] = file.string();
  }
  return {{"title", what.title},
          {"base", what.folder.string()},
          {"script", what.script},
          {"woven", woven},
          {"arguments", what.script_arguments},
          {"current", fs::current_path().string()},
          {"target", what.target},
          {"framework", what.is_pytorch ? "torch" : "keras"},
          {"processes", what.processes},
          {"threads", std::max(1, cores / what.processes)},
          {"steps", arguments.steps > 0 ? arguments.steps : kSteps},
          {"limit_samples", arguments.limit_samples},
          {"fake_data", arguments.fake_data},
          {"seconds", arguments.deadline > 0 ? arguments.deadline : kSeconds},
          {"global_batch", what.keep_global_batch ? "keep" : "grow"},
          {"epochs", what.divide_epochs ? "divide" : "keep"},
          {"warmup", what.warmup},
          {"leaves_numbers", what.leaves_numbers}};
}

}  // namespace

void add_verify_options(Verb& verb, VerifyArguments& arguments) {
  constexpr int kMost = 1'000'000'000;
  verb.option("--steps", arguments.steps,
              "With --verify: number of batches of each pass over a loader that are used (5)")
      .between(1, kMost);
  verb.option(
          "--limit-samples", arguments.limit_samples,
          "With --verify: number of samples that each data set of PyTorch is cut to, or each random one of Keras has")
      .between(1, kMost);
  verb.option("--deadline", arguments.deadline,
              "With --verify: seconds after which a program that has not ended is stopped (600)")
      .between(1, kMost);
  verb.flag(
      "--fake-data", arguments.fake_data,
      "With --verify: random data of the same form in the place of data sets of torchvision and Keras that are missing");
  verb.option("--woven", arguments.woven,
              "With --verify: compare this parallel script, for example one that you have changed by hand");
}

int verify(const Verification& what, const VerifyArguments& arguments) {
  if (arguments.limit_samples > 0 && !what.is_pytorch && !arguments.fake_data)
    throw user_error(
        "--limit-samples cuts the data sets of PyTorch, and those of --fake-data; this script trains with Keras: cut its data in the script, or give --steps");
  const Harness harness;
  const fs::path plan = harness.folder() / "plan.json";
  write_file(plan, plan_of(what, arguments, harness.folder()).dump());
  return run_program({"python3", (harness.folder() / "verify.py").string(), plan.string()});
}

}  // namespace telar::cli
