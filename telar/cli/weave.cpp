#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "telar/cli/verbs.h"
#include "telar/cli/weave_launch.h"
#include "telar/cli/weave_project.h"
#include "telar/cli/weave_strategy.h"
#include "telar/cli/weave_verify.h"
#include "telar/core/error.h"
#include "telar/core/module.h"
#include "telar/io/atomic_file.h"
#include "telar/observe/terminal.h"
#include "telar/weave/request.h"

namespace telar::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kNotUnderstood = 3;

struct WeaveArguments {
  std::string file;
  std::string project;
  std::string output;
  std::string target;
  std::string strategy;
  std::string global_batch = "grow";
  std::string epochs = "keep";
  std::string evaluation = "every";
  bool only_training = false;
  int warmup = 0;
  bool diff = false;
  bool explain = false;
  bool check = false;
  bool describe = false;
  bool from_input = false;
  bool in_place = false;
  bool run = false;
  bool verify = false;
  VerifyArguments verification;
  int processes = 2;
  std::vector<std::string> script_arguments;
};

weave::Entry load() {
  const LoadedModule module = load_module("telar-weave", weave::kEntry);
  if (module.entry != nullptr) return reinterpret_cast<weave::Entry>(module.entry);
  throw user_error(
      "the module telar-weave is missing{}; `telar weave` needs it; install python3-dev and pkg-config, then build again (scripts/build)",
      module.reason.empty() ? "" : ": " + module.reason);
}

std::string bytes_of(const std::string& file) {
  std::optional<std::string> bytes = bytes_of_file(file);
  if (!bytes) throw user_error("there is no file {}", file);
  return *bytes;
}

void check_verify_arguments(const WeaveArguments& arguments) {
  if (!arguments.verify) {
    if (arguments.verification.any_given())
      throw user_error(
          "--steps, --limit-samples, --deadline, --fake-data and --woven are for --verify, which is not given");
    return;
  }
  if (arguments.run || arguments.diff || arguments.explain || arguments.check || arguments.describe ||
      arguments.in_place || !arguments.output.empty())
    throw user_error("--verify only compares, so give it without --output, --in-place, --run and the like");
  if (arguments.processes < 2)
    throw user_error("--verify compares at least 2 processes with one, not {}", arguments.processes);
  if (!arguments.verification.woven.empty() && !arguments.project.empty())
    throw user_error("--woven is for a single script, not for a --project");
}

void check_arguments(const WeaveArguments& arguments) {
  if (arguments.from_input == !arguments.file.empty()) {
    throw user_error("give either a script or --stdin");
  }
  if (arguments.from_input && (arguments.in_place || arguments.run || arguments.verify)) {
    throw user_error("--in-place, --run and --verify need a file, so they cannot be used with --stdin");
  }
  if (arguments.from_input && !arguments.project.empty())
    throw user_error("--project needs the script that is run, so it cannot be used with --stdin");
  const bool shows = arguments.diff || arguments.explain || arguments.check || arguments.describe ||
                     arguments.run || arguments.verify;
  check_verify_arguments(arguments);
  if (!arguments.project.empty() && arguments.output.empty() && !arguments.in_place && !shows)
    throw user_error(
        "a woven project has several files; choose where to write them with --output FOLDER or --in-place");
  if (!arguments.output.empty() && arguments.in_place) throw user_error("give either --output or --in-place");
  std::error_code ignored;
  if (!arguments.output.empty() && fs::equivalent(arguments.output, arguments.file, ignored)) {
    throw user_error("{} is the script itself; use --in-place to change it", arguments.output);
  }
  if (!arguments.strategy.empty() && arguments.target != "telar")
    throw user_error(
        "--strategy is for --target telar; the other targets divide the samples among processes");
  if (arguments.processes < 1)
    throw user_error("-n needs a number of processes of at least 1, not {}", arguments.processes);
}

weave::Reply ask(const WeaveArguments& arguments) {
  weave::Request request;
  request.project = arguments.project;
  request.is_project = !arguments.project.empty();
  request.file = arguments.from_input ? "<stdin>"
                 : request.is_project ? path_within(arguments.project, arguments.file)
                                      : arguments.file;
  if (!arguments.from_input) {
    const fs::path folder =
        request.is_project ? fs::path(arguments.project) : fs::path(arguments.file).parent_path();
    request.read = [folder](const std::string& path) { return bytes_of_file(folder / path); };
    request.bytes = bytes_of(request.is_project ? (folder / request.file).string() : arguments.file);
  } else {
    request.bytes = {std::istreambuf_iterator<char>(std::cin), {}};
  }
  request.target = arguments.target;
  request.telar_options = strategy_dictionary(arguments.strategy);
  request.keep_global_batch = arguments.global_batch == "keep";
  request.divide_epochs = arguments.epochs == "divide";
  request.warmup_epochs = arguments.warmup;
  request.share_evaluation = arguments.evaluation == "shared";
  request.only_training = arguments.only_training;
  request.describe = arguments.describe;
  request.diff = arguments.diff;
  request.colour = can_colour(STDOUT_FILENO);
  weave::Reply reply;
  load()(request, reply);
  return reply;
}

void write_woven_project(const WeaveArguments& arguments, const weave::Reply& reply) {
  if (!arguments.output.empty()) write_project(arguments.project, arguments.output, reply.files);
  if (!arguments.in_place) return;
  for (const weave::WovenFile& file : reply.files)
    write_file(fs::path(arguments.project) / file.path, file.bytes);
}

/// Prints the diff and the explanation, if requested. Writes the woven files, or prints the script if nothing
/// else was requested.
void answer(const WeaveArguments& arguments, const weave::Reply& reply) {
  if (arguments.diff) std::cout << reply.diff;
  if (arguments.explain) std::cout << reply.explanation;
  if (!arguments.project.empty()) return write_woven_project(arguments, reply);
  const bool writes = !arguments.output.empty() || arguments.in_place;
  if (!arguments.output.empty()) write_file(arguments.output, reply.bytes);
  if (arguments.in_place && reply.kind == weave::Reply::Kind::woven) write_file(arguments.file, reply.bytes);
  if (!writes && !arguments.diff && !arguments.explain) std::cout << reply.bytes;
  std::cout << std::flush;
}

int run_woven(const WeaveArguments& arguments, const weave::Reply& reply) {
  Launch launched{arguments.file, reply.target, arguments.processes, arguments.script_arguments};
  if (arguments.project.empty()) return launch_beside(launched, reply.bytes);
  const TemporaryProject project(arguments.project, reply.files);
  launched.script = project.folder() / path_within(arguments.project, arguments.file);
  const int code = launch(launched);
  if (project.keeps_files()) {
    std::cerr << "the files that the program wrote are kept in " << project.folder().string() << std::endl;
  }
  return code;
}

/// Compares the script with what was woven, or with the file that the user names.
int verify_woven(const WeaveArguments& arguments, const weave::Reply& reply) {
  if (reply.target == "telar" && !reply.is_pytorch)
    throw user_error(
        "--verify compares scripts of PyTorch with --target telar; of a Keras model, telar.keras itself compares the first batch with Keras");
  Verification what;
  what.title = arguments.file;
  what.target = reply.target;
  what.is_pytorch = reply.is_pytorch;
  what.processes = reply.target == "telar" ? 1 : arguments.processes;
  what.keep_global_batch = arguments.global_batch == "keep" || reply.divides_steps;
  what.divide_epochs = arguments.epochs == "divide";
  what.warmup = arguments.warmup;
  what.leaves_numbers = !reply.notes.empty();
  what.script_arguments = arguments.script_arguments;
  if (arguments.project.empty()) {
    const fs::path script = fs::absolute(arguments.file);
    what.folder = script.parent_path();
    what.script = script.filename().string();
    what.woven = {{what.script, reply.bytes}};
  } else {
    what.folder = fs::absolute(arguments.project);
    what.script = path_within(arguments.project, arguments.file);
    what.woven = reply.files;
  }
  return verify(what, arguments.verification);
}

/// The reply for --woven, where the user's own file is in the place of what weave would write.
weave::Reply woven_by_user(const WeaveArguments& arguments) {
  weave::Reply reply = ask(arguments);  // perhaps refused, but then with its framework
  reply.bytes = bytes_of(arguments.verification.woven);
  if (reply.target.empty())
    reply.target = !arguments.target.empty() ? arguments.target : reply.is_pytorch ? "ddp" : "horovod";
  return reply;
}

int weave_script(const WeaveArguments& arguments) {
  check_arguments(arguments);
  if (!arguments.verification.woven.empty()) return verify_woven(arguments, woven_by_user(arguments));
  const weave::Reply reply = ask(arguments);
  switch (reply.kind) {
    case weave::Reply::Kind::refused:
      std::cerr << "not woven: " << reply.message << std::endl;
      return kNotUnderstood;
    case weave::Reply::Kind::described: std::cout << reply.json << std::flush; return 0;
    case weave::Reply::Kind::already_parallel:
      std::cerr << reply.message << std::endl;
      if (arguments.verify)
        throw user_error("--verify needs the sequential script; give the parallel one with --woven");
      break;
    case weave::Reply::Kind::woven: std::cerr << reply.notes << std::flush; break;
  }
  if (arguments.check) {
    if (reply.kind == weave::Reply::Kind::woven) {
      std::cout << arguments.file << " can be woven for " << reply.target
                << "; --diff and --explain show how\n";
    }
    return 0;
  }
  if (arguments.run) return run_woven(arguments, reply);
  if (arguments.verify) return verify_woven(arguments, reply);
  answer(arguments, reply);
  return 0;
}

}  // namespace

void add_weave(Verb& program) {
  auto arguments = std::make_shared<WeaveArguments>();
  Verb verb = program.subverb("weave", "Turns a sequential PyTorch or Keras script into a parallel one");
  verb.option("SCRIPT", arguments->file, "A training script (docs/weave.md)");
  verb.option("ARGUMENTS", arguments->script_arguments,
              "With --run or --verify, after --: the arguments of the script");
  verb.option("--project", arguments->project,
              "Folder of the script's project; the project files that the script imports are woven too");
  verb.option(
      "-o,--output", arguments->output,
      "Write the woven script to this file, or the project to this folder; without it, print the script");
  verb.option(
          "--target", arguments->target,
          "ddp (PyTorch, by torchrun), horovod (PyTorch, Keras), tf-distribute (Keras), telar (PyTorch, Keras; on Telar's engine); without it, ddp for PyTorch and horovod for Keras")
      .one_of({"ddp", "horovod", "tf-distribute", "telar"});
  verb.option(
      "--strategy", arguments->strategy,
      "With --target telar: the strategy and its options, as in mirrored,replicas=4; the woven script has them in a variable");
  verb.option(
          "--global-batch", arguments->global_batch,
          "grow: each process takes the script's batch, and the learning rate is multiplied by the number of processes; keep: the processes divide the batch, and the rate stays the same")
      .one_of({"grow", "keep"});
  verb.option(
          "--epochs", arguments->epochs,
          "keep: each process takes its share of the samples; divide: each sees all samples, and the epochs are divided by the number of processes (--target horovod or ddp)")
      .one_of({"keep", "divide"});
  verb.option(
          "--evaluation", arguments->evaluation,
          "every: each process evaluates all samples; shared: each takes its share of the batches, and the totals are summed over the processes (PyTorch)")
      .one_of({"every", "shared"});
  verb.flag(
      "--only-training", arguments->only_training,
      "Where the numbers that the script shows cannot be joined over the processes, leave them: the first process shows those of its own batches (PyTorch)");
  verb.option(
          "--warmup", arguments->warmup,
          "Number of epochs over which the learning rate grows from the script's to that of all processes (--target horovod or ddp)")
      .not_negative();
  verb.flag("--diff", arguments->diff, "Print the changes as a unified diff");
  verb.flag("--explain", arguments->explain, "Print each change with its line and reason");
  verb.flag("--check", arguments->check, "Check that the script can be woven, and write nothing");
  verb.flag("--describe", arguments->describe, "Print what was understood of the script, as JSON");
  verb.flag("--stdin", arguments->from_input, "Read the script from standard input");
  verb.flag("--in-place", arguments->in_place, "Change the script or project itself");
  verb.flag("--run", arguments->run, "Weave into a temporary file and start it with -n processes");
  verb.option("-n,--processes", arguments->processes,
              "Number of processes that --run starts or --verify compares (2)");
  verb.flag(
      "--verify", arguments->verify,
      "Run the script and its woven form for a few steps on this machine, and compare what they compute, print and write");
  add_verify_options(verb, arguments->verification);
  verb.footer(
      "Examples:\n"
      "  telar weave train.py -o train_parallel.py && torchrun --nproc_per_node 4 train_parallel.py\n"
      "  telar weave --diff train.py --target horovod\n"
      "  telar weave --run -n 4 train.py -- --epochs 3\n"
      "  telar weave --verify train.py -- --epochs 2\n"
      "  telar weave --project . train.py -o ../parallel\n"
      "Exit codes: 0 success, 1 --verify found a difference, 2 invalid command line or file, 3 a part of the script is not understood.");
  verb.action([arguments] { return weave_script(*arguments); });
}

}  // namespace telar::cli
