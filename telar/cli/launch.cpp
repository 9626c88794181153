#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

#include "telar/cli/options.h"
#include "telar/cli/service.h"
#include "telar/cli/verbs.h"
#include "telar/comm/store/random_id.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/launch/engines.h"
#include "telar/launch/kubernetes.h"
#include "telar/launch/supervisor.h"
#include "telar/observe/process.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_strategy.h"
#include "telar/train/run_folder.h"
#include "telar/train/shared_task.h"

namespace telar::cli {

namespace {

constexpr StopRequest::Messages kLaunchStops = {
    "stopping the run with a checkpoint; a second Ctrl-C quits at once, and the processes stop by themselves\n",
    "quitting at once\n"};
constexpr int kTerminated = 143;
constexpr int kWrong = 2;

struct LaunchArguments {
  std::string job;
  std::vector<std::string> overrides;
  std::string on;  ///< empty, and so the following: as the job says
  std::string hosts;
  std::string host_file;
  std::string ssh;
  std::string program;
  int processes = 0;
  int restarts = -1;
  int nodes = 0;
  std::string partition;
  std::string array;
  std::string address;
  std::string python;
  int cpus = -1;
  std::string image;
  int gpus = -1;
  std::string memory;
  std::string render;
  std::string output;
  std::string storage;
  std::string summary;
  bool resume = false;
  bool quiet = false;
  SecurityArguments security;
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// The text with the number of a task of an array in place of {task}.
std::string for_task(std::string text, const std::string& number) {
  const std::string task = "{task}";
  for (size_t at = 0; (at = text.find(task, at)) != std::string::npos; at += number.size()) {
    if (number.empty())
      throw user_error(
          "{}: {} is the number of a task of an array of Slurm; say with --array which there are, as in --array 0-3",
          text, task);
    text.replace(at, task.size(), number);
  }
  return text;
}

LaunchArguments of_task(LaunchArguments arguments, const std::string& number) {
  for (std::string* text : {&arguments.output, &arguments.storage, &arguments.summary})
    *text = for_task(*text, number);
  for (std::string& text : arguments.overrides) text = for_task(text, number);
  return arguments;
}

/// The job; what the command line says of its engine comes before what the job says.
Job job_of(const LaunchArguments& arguments) {
  const std::filesystem::path path = arguments.job;
  if (!std::filesystem::exists(path) || arguments.job == "-")
    throw user_error("{}: there is no such file or folder here; the first process reads it, too",
                     arguments.job);
  const bool run_folder = std::filesystem::is_regular_file(path / "job.yaml");
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.on.empty()) overrides.push_back("run.on=" + arguments.on);
  // How many processes there are is known when the engine is; more than one, or telar train would do.
  Job job = read_job(run_folder ? path / "job.yaml" : path, overrides, 2);
  if (run_folder) job.output.folder = path.string();
  if (!arguments.output.empty()) job.output.folder = arguments.output;
  LaunchJob& run = job.run;
  const bool names_hosts = !arguments.hosts.empty() || !arguments.host_file.empty();
  if (run.on != "ssh" && (names_hosts || !arguments.ssh.empty()))
    throw user_error("--hosts, --host-file and --ssh are for --on ssh, not for --on {}", run.on);
  if (run.on != "slurm" && arguments.nodes > 0) throw user_error("--nodes is for --on slurm");
  const bool kubernetes = run.on == "kubernetes";
  if (run.on != "ray" && (!arguments.address.empty() || !arguments.python.empty()))
    throw user_error("--address and --python are for --on ray, not for --on {}", run.on);
  if (run.on != "ray" && !kubernetes && arguments.cpus >= 0)
    throw user_error("--cpus is for --on ray and --on kubernetes, not for --on {}", run.on);
  if (!kubernetes && (!arguments.image.empty() || !arguments.memory.empty() || arguments.gpus >= 0 ||
                      !arguments.render.empty()))
    throw user_error("--render, --image, --gpus and --memory are for --on kubernetes, not for --on {}",
                     run.on);
  if (kubernetes && arguments.render.empty())
    throw user_error(
        "--on kubernetes starts nothing itself: say with --render DIR where it writes the manifests, which kubectl applies");
  if (names_hosts) {
    run.hosts.clear();
    run.host_file = arguments.host_file;
    if (!arguments.hosts.empty()) run.hosts = {arguments.hosts};
  }
  if (!arguments.ssh.empty()) run.ssh = arguments.ssh;
  if (!arguments.program.empty()) run.program = arguments.program;
  if (!arguments.partition.empty()) run.partition = arguments.partition;
  if (!arguments.address.empty()) run.address = arguments.address;
  if (!arguments.python.empty()) run.python = arguments.python;
  if (arguments.cpus >= 0) run.cpus = arguments.cpus;
  if (!arguments.image.empty()) run.image = arguments.image;
  if (arguments.gpus >= 0) run.gpus = arguments.gpus;
  if (!arguments.memory.empty()) run.memory = arguments.memory;
  if (arguments.processes > 0) run.processes = arguments.processes;
  if (arguments.restarts >= 0) run.restarts = arguments.restarts;
  if (arguments.nodes > 0) run.nodes = arguments.nodes;
  if (!arguments.partition.empty() && run.nodes == 0)
    throw user_error("--partition requires --nodes, or run.nodes in the job");
  if (!arguments.array.empty() && (run.on != "slurm" || run.nodes == 0))
    throw user_error("--array is for --on slurm, and requires --nodes, or run.nodes in the job");
  return job;
}

/// How many processes train; 0: one in each place.
int64_t processes_of(const Job& job) {
  const LaunchJob& run = job.run;
  if (uses_servers(job) && run.processes > 0)
    throw user_error(
        "--processes (run.processes) is for strategies without parameter servers; with '{}', strategy.workers says how many workers there are",
        job.strategy.name);
  if (uses_servers(job)) return all_workers_of(job.strategy);
  if (run.processes == 0 && (run.on == "local" || run.on == "kubernetes"))
    throw user_error("--on {}: say with --processes (run.processes) how many there will be", run.on);
  return run.processes;
}

std::unique_ptr<LaunchEngine> engine_of(const Job& job) {
  const LaunchJob& run = job.run;
  const int64_t processes = processes_of(job);
  if (run.on == "slurm") return slurm_engine();
  if (run.on == "ray") return ray_engine(run.address, run.python, static_cast<int>(run.cpus));
  if (run.on == "local") return local_engine(static_cast<int>(processes));
  if (run.hosts.empty() == run.host_file.empty())
    throw user_error(
        "--on ssh: name the hosts with --hosts node1,node2:4, or with --host-file FILE (run.hosts, run.host_file)");
  const std::vector<std::string> ssh = words_of(run.ssh);
  if (ssh.empty()) throw user_error("--ssh: it names no program");
  return ssh_engine(run.hosts.empty() ? slots_of_host_file(run.host_file)
                                      : slots_of_hosts(fmt::format("{}", fmt::join(run.hosts, ","))),
                    ssh);
}

/// Of the batch job in which this process runs: empty outside of Slurm.
std::string slurm_variable(const LaunchJob& run, const char* name) {
  const char* value =
      run.on == "slurm" ? std::getenv(name) : nullptr;  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return value == nullptr ? "" : value;
}

/// What all starts of the run have in common.
class LaunchedRun {
 public:
  LaunchedRun(const LaunchArguments& arguments, Job job, const std::vector<LaunchSlot>& slots)
      : arguments_(arguments), security_(security_of(arguments.security)), job_(std::move(job)) {
    processes_ = static_cast<int>(workers()                ? all_workers_of(job_.strategy)
                                  : job_.run.processes > 0 ? job_.run.processes
                                                           : std::ssize(slots));
    if (!workers()) workers_of_process(job_.strategy, processes_);
    job_.strategy.implied &= processes_ > 1;
    if (job_.strategy.implied && !arguments.quiet)
      std::cout << implied_text(job_.strategy, processes_) << std::endl;
    const auto is_near = [](const LaunchSlot& slot) { return Address{slot.address, 1}.loopback(); };
    near_ = !slots.empty() && is_near(slots.front());
    if (near_ && !std::ranges::all_of(slots, is_near))
      throw user_error(
          "{} is this host's name for itself, which other hosts cannot reach: name the host as others do",
          slots.front().address);
    if (security_.token.empty()) security_.token = fmt::format("{:016x}{:016x}", random_id(), random_id());
    check_listening(listening(0), security_);
    program_ = job_.run.program.empty() ? std::filesystem::read_symlink("/proc/self/exe").string()
                                        : job_.run.program;
    requeued_ = slurm_variable(job_.run, "SLURM_RESTART_COUNT");
  }

  /// A folder that was made here stays empty if the run did not begin, or is on another host.
  ~LaunchedRun() {
    std::error_code ignored;
    if (claimed_.empty()) return;
    std::filesystem::remove_all(claimed_ + "/servers", ignored);
    std::filesystem::remove(claimed_, ignored);
  }
  LaunchedRun(const LaunchedRun&) = delete;
  LaunchedRun& operator=(const LaunchedRun&) = delete;

  int processes() const { return processes_; }
  /// Whether they are workers of parameter servers.
  bool workers() const { return uses_servers(job_); }
  /// How many of these are started with them.
  int servers() const {
    if (!workers() || !job_.strategy.server_addresses.empty()) return 0;
    return static_cast<int>(server_processes(job_.strategy));
  }
  bool copies() const { return server_copies(job_.strategy) > 1; }
  /// How many processes a start has at least.
  int least() const {
    if (workers()) return 1;
    if (workers_of(job_.strategy).of_all_processes) return processes_;
    return std::max<int>(1, static_cast<int>(job_.strategy.min_workers));
  }
  /// What was made here is used up: the run is in a folder of this name on another host.
  void keep_folder() { claimed_.clear(); }
  bool elastic() const { return !workers() && job_.strategy.min_workers > 0; }
  bool resume() const { return arguments_.resume || !requeued_.empty(); }

  /// Servers would write into another run's folder.
  void require_usable_folder() {
    if (servers() > 0) RunFolder::require_usable(folder(), resume() || !job_.output.storage.empty());
  }

  LaunchCommand first(int processes, bool resume, const std::vector<std::string>& servers) {
    LaunchCommand command = telar("train");
    command.trains = !workers();
    command.words.push_back(arguments_.job);
    for (const std::string& one : arguments_.overrides)
      command.words.insert(command.words.end(), {"--set", one});
    if (!arguments_.on.empty())
      command.words.insert(command.words.end(), {"--set", "run.on=" + arguments_.on});
    if (job_.strategy.implied) {  // also when few processes are left
      const std::string& count = type_of(job_.strategy).count;
      command.words.insert(command.words.end(),
                           {"--set", "strategy.name=" + job_.strategy.name, "--set",
                            fmt::format("strategy.{}={}", count, job_.strategy.options.integer(count))});
    }
    command.words.insert(command.words.end(), {"--output", folder()});
    if (workers()) command.words.insert(command.words.end(), {"--coordinate", listening(0)});
    for (const std::string& address : servers)
      command.words.insert(command.words.end(), {"--own-servers", address});
    if (!workers() && processes > 1)
      command.words.insert(command.words.end(),
                           {"--workers", std::to_string(processes), "--coordinate", listening(0)});
    if (!arguments_.summary.empty())
      command.words.insert(command.words.end(), {"--summary", arguments_.summary});
    if (resume) command.words.push_back("--resume");
    if (arguments_.quiet) command.words.push_back("--quiet");
    return command;
  }
  LaunchCommand other(const std::string& address) const {
    LaunchCommand command = telar("work");
    command.words.insert(command.words.end(), {"--join", address});
    // Workers do not know of each other; other hosts are theirs alone, or divided by their engine.
    const std::vector<int64_t>& threads = job_.strategy.threads;
    if (workers() && job_.run.on == "local" && std::ranges::all_of(threads, [](int64_t n) { return n == 0; }))
      command.words.insert(
          command.words.end(),
          {"--set", fmt::format("strategy.threads={}", std::max(1, available_threads() / processes_))});
    return command;
  }
  LaunchCommand server(int number, int port) {
    LaunchCommand command = telar("serve");
    command.trains = false;
    command.words.insert(command.words.end(), {"--listen", listening(port)});
    if (!copies())
      command.words.insert(command.words.end(),
                           {"--snapshots", fmt::format("{}/servers/{}", folder(), number),
                            "--snapshot-seconds", fmt::format("{}", job_.strategy.snapshot_seconds)});
    return command;
  }

 private:
  /// The run's folder, the same at every start. A job that Slurm queues again finds its own.
  const std::string& folder() {
    std::string& folder = job_.output.folder;
    if (folder.empty() && arguments_.resume) folder = RunFolder::find(job_).value_or("").string();
    const std::string id = job_.run.on == "slurm" ? slurm_job() : "";
    if (folder.empty() && !id.empty()) folder = fmt::format("runs/{}-{}", job_.name, id);
    if (folder.empty()) folder = claimed_ = claim_run_folder(job_.name).string();
    return folder;
  }
  std::string listening(int port) const {
    return fmt::format("{}:{}", near_ ? "127.0.0.1" : "0.0.0.0", port);
  }

  LaunchCommand telar(const std::string& verb) const {
    LaunchCommand command{{program_, verb, "--supervised"}, {{"TELAR_TOKEN", security_.token}}};
    if (!security_.certificates.empty())
      command.words.insert(command.words.end(), {"--certificates", security_.certificates});
    if (security_.insecure_network) command.words.push_back("--insecure-network");
    return command;
  }

  const LaunchArguments& arguments_;
  Security security_;
  Job job_;
  int processes_ = 1;
  bool near_ = false;
  std::string claimed_;  ///< the run's folder, if it was made here
  std::string program_;
  std::string requeued_;
};

/// Of an array as sbatch takes it. Throws Error (user) if it is none.
std::string first_task(const std::string& array) {
  std::string first = array.substr(0, array.find_first_not_of("0123456789"));
  if (first.empty() || array.find_first_not_of("0123456789,-:%") != std::string::npos)
    throw user_error("--array is '{}'; it must be a list of numbers, such as 0-3 or 1,5-9%2", array);
  return first;
}

/// Throws Error (user) unless the tasks of an array can run at the same time. The first number of `array`
/// stands for all.
void check_array(const LaunchArguments& arguments) {
  const std::string first = first_task(arguments.array);
  const Job job = job_of(of_task(arguments, first));
  if (arguments.resume && job.output.folder.empty())
    throw user_error(
        "--array with --resume: say with --output which folder is that of each task, as in --output runs/trial-{{task}}");
  if (first == arguments.array) return;
  std::vector<std::string> of_tasks = arguments.overrides;  // texts that are others for each task
  of_tasks.insert(of_tasks.end(), {arguments.output, arguments.storage, arguments.summary});
  std::erase_if(of_tasks, [](const std::string& text) { return text.find("{task}") == std::string::npos; });
  for (std::string& text : of_tasks) text = for_task(text, first);
  const auto require_own = [&](const std::string& place, const char* option) {
    const auto names_it = [&](const std::string& text) { return text.ends_with(place); };
    if (!place.empty() && std::ranges::none_of(of_tasks, names_it))
      throw user_error("--array: all tasks would write to {}; write {{task}} in {}, as in {}-{{task}}", place,
                       option, place);
  };
  require_own(job.output.folder, "--output (output.folder)");
  require_own(job.output.storage, "--storage (output.storage)");
  require_own(arguments.summary.empty() ? "" : for_task(arguments.summary, first), "--summary");
}

/// The words of this command line, for the same program on a node of Slurm.
std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  words.at(0) = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}

/// Continues as another program.
[[noreturn]] void become(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  throw user_error("{} cannot be started ({}): is this a host of a Slurm cluster?", words[0],
                   std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): one thread
}

/// A folder of manifests has no others: kubectl applies all that are in it.
void write_manifests(const std::filesystem::path& folder, const KubernetesManifests& manifests) {
  make_folder(folder);
  std::vector<std::filesystem::path> earlier;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name != "common.yaml" && name != "first.yaml" && name != "workers.yaml" && name != "servers.yaml")
      throw user_error("--render: {} has another file, {}; the manifests need a folder of their own",
                       folder.string(), name);
    earlier.push_back(entry.path());
  }
  for (const std::filesystem::path& file : earlier) std::filesystem::remove(file);
  for (const auto& [name, text] : manifests.files) write_file(folder / name, text);
}

/// Writes what Kubernetes is to be given, and says what else it needs.
int render(const LaunchArguments& arguments, const Job& job) {
  const SecurityArguments& security = arguments.security;
  if (!security.certificates.empty() || !security.token_file.empty() || security.insecure_network)
    throw user_error(
        "--on kubernetes: the pods take certificates and token from a Secret, not from this host");
  const LaunchJob& run = job.run;
  if (arguments.resume || !arguments.output.empty() || !arguments.summary.empty() ||
      !arguments.program.empty())
    throw user_error(
        "--resume, --output, --summary and --program are not for --on kubernetes: a run there is in a folder of its pods, and resumes by itself");
  if (std::filesystem::is_directory(arguments.job))
    throw user_error(
        "{}: the checkpoints of this run are not in the cluster; give the file of a job, and with output.storage the place where the run is",
        arguments.job);
  if (job.output.storage.starts_with('/') || job.output.storage.starts_with("file://"))
    throw user_error(
        "output.storage is {}, which would be gone with its pod; without it, the run is on a volume of the cluster",
        job.output.storage);
  if (run.image.empty())
    throw user_error("--on kubernetes: name with --image (run.image) the image that contains telar");
  const int64_t processes = processes_of(job);
  if (!uses_servers(job)) workers_of_process(job.strategy, static_cast<int>(processes));
  const KubernetesManifests manifests = kubernetes_manifests(job, processes);
  write_manifests(arguments.render, manifests);
  if (arguments.quiet) return 0;
  std::cout << fmt::format(
      "the manifests are in {0}; they need the Secret {1}:\n"
      "  scripts/certs certs {2}\n"
      "  head -c 24 /dev/urandom | base64 > certs/token\n"
      "  kubectl create secret generic {1} --from-file certs\n"
      "  kubectl apply -f {0}\n"
      "  kubectl logs -f job/{3}-first\n"
      "The cluster must be of Kubernetes 1.29 or newer. A Job that is there cannot be changed: before a changed job is applied,\n"
      "  kubectl delete --cascade=foreground job {3}-first{4}\n",
      arguments.render, manifests.secret, fmt::join(manifests.certified, " "), manifests.name,
      manifests.files.contains("workers.yaml") && job.strategy.elastic.min == 0
          ? fmt::format(" {}-worker", manifests.name)
          : "");
  if (!manifests.credentials.empty())
    std::cout << fmt::format(
        "The variables for {} come from the Secret {}, as in --from-literal=AWS_ACCESS_KEY_ID=…\n",
        job.output.storage, manifests.credentials);
  return 0;
}

/// Of this process, if it is one of an array; otherwise that of the first one, which is to be submitted.
std::string task_of(const LaunchArguments& arguments) {
  const char* task = std::getenv("SLURM_ARRAY_TASK_ID");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (task != nullptr) return task;
  return arguments.array.empty() ? "" : first_task(arguments.array);
}

int launch(const LaunchArguments& of_all) {
  const LaunchArguments arguments = of_task(of_all, task_of(of_all));
  const Job job = job_of(arguments);
  if (job.run.on == "kubernetes") return render(arguments, job);
  const std::string allocation = slurm_variable(job.run, "SLURM_JOB_ID");
  if (!of_all.array.empty() && !allocation.empty() && slurm_variable(job.run, "SLURM_ARRAY_TASK_ID").empty())
    throw user_error(
        "--array submits tasks to Slurm, but this is within its allocation {}; leave --array out, or submit from outside of the allocation",
        allocation);
  if (job.run.nodes > 0 && allocation.empty()) {
    if (!of_all.array.empty()) check_array(of_all);
    become(slurm_submission(own_command(), static_cast<int>(job.run.nodes), job.run.partition, of_all.array));
  }
  if (const std::string nodes = slurm_variable(job.run, "SLURM_JOB_NUM_NODES");
      job.run.nodes > 0 && nodes != std::to_string(job.run.nodes))
    throw user_error(
        "--nodes (or run.nodes) is {}, but this is an allocation of Slurm with {}; leave it out, or submit from outside of the allocation",
        job.run.nodes, nodes);
  const std::unique_ptr<LaunchEngine> engine = engine_of(job);
  LaunchedRun run(arguments, job, engine->slots());
  run.require_usable_folder();
  const auto say = [](const std::string& text) { std::cerr << "launch: " << text << std::endl; };
  Supervisor supervisor(*engine,
                        {.processes = run.processes(),
                         .elastic = run.elastic(),
                         .workers = run.workers(),
                         .servers = run.servers(),
                         .copies = run.copies(),
                         .restarts = static_cast<int>(job.run.restarts),
                         .least = run.least(),
                         .resume = run.resume(),
                         .first =
                             [&](int processes, bool resume, const std::vector<std::string>& servers) {
                               return run.first(processes, resume, servers);
                             },
                         .other = [&](const std::string& address) { return run.other(address); },
                         .server = [&](int number, int port) { return run.server(number, port); },
                         .say = say,
                         .show = [](const std::string& line) { std::cout << line << std::endl; }});
  int code = 0;
  bool terminated = false;
  {
    const StopRequest stop(kLaunchStops);
    const auto start = std::chrono::steady_clock::now();
    for (std::optional<int> over; !over; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      if (stop.requested()) supervisor.stop(stop.signal_number());
      const std::chrono::duration<double> now = std::chrono::steady_clock::now() - start;
      over = supervisor.advance(now.count());
      code = over.value_or(0);
      terminated = stop.requested() && 128 + stop.signal_number() == kTerminated;
    }
  }
  if (code != kWrong) run.keep_folder();
  if ((code == kTerminated || (code == kStoppedUnstored && terminated)) && job.run.on == "slurm")
    requeue_slurm_job(say);
  return code;
}

}  // namespace

void add_launch(Verb& program) {
  auto arguments = std::make_shared<LaunchArguments>();
  Verb verb = program.subverb("launch", "Trains a job on several hosts, and keeps it going");
  verb.option("JOB", arguments->job, "A job file (docs/job.md), or the folder of a run to resume").required();
  add_overrides(verb, arguments->overrides);
  verb.option(
          "--on", arguments->on,
          "local: this host; ssh: hosts that ssh reaches; slurm: the nodes of this allocation; ray: those of a cluster of Ray; kubernetes: manifests for it (local, or run.on of the job, which may have the other options of where it runs, too)")
      .one_of({"local", "ssh", "slurm", "ray", "kubernetes"});
  verb.option(
          "--processes", arguments->processes,
          "Processes of the run; without it, one on each place of the hosts or nodes, or for each task of Slurm")
      .between(1, 10'000);
  const Option hosts =
      verb.option("--hosts", arguments->hosts, "Hosts for ssh, as in node1,node2:4 (four places)");
  verb.option("--host-file", arguments->host_file, "The same in a file of OpenMPI, MPICH or PBS")
      .excludes(hosts);
  verb.option("--ssh", arguments->ssh, "The program ssh with its options (ssh)");
  verb.option("--nodes", arguments->nodes, "Submits this command to Slurm, as a batch job of so many nodes")
      .between(1, 10'000);
  verb.option("--partition", arguments->partition, "Slurm's partition for it");
  verb.option(
      "--array", arguments->array,
      "Submits it once for each of these numbers, as in 0-3 or 1,5-9%2, which take the place of {task} in --set, --output, --storage and --summary");
  verb.option("--address", arguments->address,
              "The address of Ray's cluster; without it, that of this host (ray)");
  verb.option("--python", arguments->python, "A Python on this host that has Ray (python3)");
  verb.option("--cpus", arguments->cpus,
              "Processors of each place; 0: each node is one place (0, ray), or no limit (kubernetes)")
      .between(0, 4096);
  verb.option("--render", arguments->render,
              "The folder for the manifests, which kubectl applies (kubernetes)");
  verb.option("--image", arguments->image, "The image that contains telar (kubernetes)");
  verb.option("--gpus", arguments->gpus, "GPUs of each process that trains (0, kubernetes)").between(0, 64);
  verb.option("--memory", arguments->memory, "Memory of each pod, as in 4Gi (no limit, kubernetes)");
  verb.option("--program", arguments->program,
              "The path of telar on the hosts; without it, that of this program");
  verb.option("--restarts", arguments->restarts, "How often a run that has failed is started again (3)")
      .between(0, 1000);
  verb.option("--output", arguments->output, "Run folder; without it, a new folder runs/NAME-N");
  verb.option(
      "--storage", arguments->storage,
      "Where checkpoints are stored, too, and the run is resumed from if its host is lost: s3://BUCKET/FOLDER by rclone or aws, REMOTE:FOLDER of rclone, or an absolute path (output.storage)");
  verb.option("--summary", arguments->summary, "Write the result as JSON to this file");
  verb.flag("--resume", arguments->resume, "Resume from the run's newest checkpoint");
  add_security(verb, arguments->security);
  verb.flag("--quiet", arguments->quiet, "Print only errors, and what happens to processes");
  verb.footer(
      "Examples:\n"
      "  telar launch JOB --processes 4\n"
      "  telar launch JOB --on ssh --hosts node1,node2 --certificates certs\n"
      "  telar launch JOB --on slurm --nodes 4 --certificates certs\n"
      "  telar launch JOB --on slurm --nodes 1 --array 0-3 --set training.seed={task}\n"
      "  telar launch JOB --on ray --certificates certs\n"
      "  telar launch JOB --processes 4 --storage s3://bucket/run\n"
      "  telar launch JOB --on kubernetes --processes 4 --image registry/telar:1 --render manifests\n"
      "A process that is killed is replaced (strategy.min_workers), or the run continues from its checkpoint.\n"
      "Exit codes: those of telar train.");
  verb.action([arguments] {
    if (!arguments->storage.empty()) arguments->overrides.push_back("output.storage=" + arguments->storage);
    return launch(*arguments);
  });
}

}  // namespace telar::cli
