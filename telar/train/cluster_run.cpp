#include "telar/train/cluster_run.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <random>
#include <utility>

#include "telar/comm/members/protocol.h"
#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/server_program.h"
#include "telar/observe/process.h"
#include "telar/runtime/server_state.h"
#include "telar/runtime/stored_pieces.h"
#include "telar/train/checkpoint.h"
#include "telar/train/cluster_children.h"
#include "telar/train/cluster_description.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_stream.h"
#include "telar/train/run_folder.h"
#include "telar/train/server_addresses.h"
#include "telar/train/work_division.h"

namespace telar {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A run that is being stopped waits this long for a server that has gone; a local one is restarted sooner.
constexpr double kAwayPatience = 3;  // seconds
constexpr double kServerStart = 20;  // seconds

/// CoordinatorOptions::works_before, below 2^39.
int64_t random_works_before() {
  std::random_device device;
  return static_cast<int64_t>(device() & 0xffffffffU) << 7U;
}

std::string random_text() {
  std::random_device device;  // the operating system's source of randomness
  std::string text;
  for (int word = 0; word < 4; ++word) text += fmt::format("{:08x}", device());
  return text;
}

/// The servers that have joined the run, which its next coordinator asks, too.
void write_joined(const fs::path& file, const std::vector<std::string>& servers,
                  const std::function<void(const std::string&)>& say) {
  std::string text;
  for (const std::string& server : servers) text += server + "\n";
  try {
    write_file(file, text, Links::refuse);
  } catch (const Error& error) {
    say(fmt::format("{}; a coordinator that resumes this run will not know the servers that have joined",
                    error.what()));
  }
}

/// Used as the first round: higher than all rounds that servers may still know from earlier parts of this
/// run.
int64_t milliseconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ClusterRun::ClusterRun(const Job& job, const SampleSpec& spec, const DataDecision& data,
                       ClusterOptions options)
    : job_(job),
      spec_(spec),
      data_(data),
      options_(std::move(options)),
      id_(run_id_of(options_.folder)),
      program_(job_program(job, spec)) {
  if (options_.stream != nullptr)
    work_.emplace(*options_.stream, linger_seconds(job_.data), cooperation_of(job_.strategy).work_steps);
  if (job_.strategy.elastic.min > 0) policy_.emplace(job_.strategy.elastic);
  fs::create_directories(options_.folder / "logs");
  if (starts_workers() && options_.security.token.empty()) options_.security.token = random_text();
  if (starts_workers() || options_.servers.empty()) processes_ = std::make_unique<LocalProcesses>(note());
  if (options_.stop_requested)
    stop_watch_ = std::jthread([this](const std::stop_token& over) { watch_for_stop(over); });
}

/// Tells the workers that the run is over, then ends the local processes.
ClusterRun::~ClusterRun() {
  stop_watch_ = {};
  if (processes_) processes_->let_end();
  {
    const std::scoped_lock lock(joining_mutex_);
    ending_ = true;
  }
  chains_.reset();
  coordinator_.reset();
  clients_.clear();
  processes_.reset();
  try {
    tell();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a destructor cannot throw
  }
}

std::function<void(const std::string&)> ClusterRun::note() {
  return [this](const std::string& text) {
    const std::scoped_lock lock(notes_mutex_);
    notes_.push_back(text);
  };
}

/// Forwards the messages to the caller and to logs/events.log.
void ClusterRun::tell() {
  std::vector<std::string> notes;
  {
    const std::scoped_lock lock(notes_mutex_);
    notes.swap(notes_);
  }
  if (notes.empty()) return;
  for (const std::string& text : notes) {
    if (options_.say) options_.say(text);
  }
  try {
    OutputFile log(options_.folder / "logs" / "events.log", OutputFile::Mode::append);
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    for (const std::string& text : notes) log.write(fmt::format("{:%F %T} {}\n", fmt::localtime(now), text));
  } catch (const Error& error) {
    if (!std::exchange(log_failed_, true) && options_.say)
      options_.say(fmt::format("{}; the log lacks some of these messages", error.what()));
  }
}

void ClusterRun::start(const Session& session, const TrainingState& state) {
  before_ = state.losses.value_or(RunLosses());
  if (options_.servers.empty()) {
    start_servers();
  } else {
    addresses_ = given_addresses(options_.servers, job_.strategy);
  }
  try {
    connect();
    write_servers(only_store(program_), stores(), session, updates_before(program_, state));
    if (chains_) chains_->copy();
  } catch (const Error& error) {
    if (processes_) processes_->check();  // says more
    if (chains_) check_copies();
    if (state.step == 0 || error.kind() == Error::Kind::user) throw;
    throw run_error("{}; {}", error.what(), how_to_continue());
  }
  CoordinatorOptions options =
      division_of(cooperation_of(job_.strategy), workers_of(job_.strategy).count, options_.epoch_steps);
  if (policy_) options.workers = policy_->wanted();
  options.works_before = random_works_before();
  options.listen = options_.coordinate.empty() ? "127.0.0.1:0" : options_.coordinate;
  options.security = options_.security;
  options.job = id_;
  options.description = description(state);
  options.servers = addresses_;
  for (const auto& client : clients_) options.tenures.push_back(client->tenure());
  options.rounds_before = milliseconds_since_1970();
  if (chains_) options.server_joins = std::bind_front(&ClusterRun::server_joins, this);
  options.say = note();
  {
    const std::scoped_lock lock(heads_mutex_);
    for (size_t s = 0; s < heads_.size(); ++s) {
      options.servers[s] = heads_[s].address;
      options.generations.push_back(heads_[s].generation);
      options.copies.push_back(heads_[s].copy);
    }
    coordinator_ = std::make_unique<Coordinator>(std::move(options));
  }
  if (starts_workers()) {
    start_workers(policy_ ? policy_->wanted() : all_workers_of(job_.strategy));
  } else if (options_.listens) {
    options_.listens(coordinator_->address());
  } else if (options_.say) {
    options_.say(fmt::format("waiting for workers: telar work --join {}", coordinator_->address()));
  }
}

/// What workers receive when they join.
std::string ClusterRun::description(const TrainingState& state) const {
  ClusterDescription description{.job = job_, .spec = spec_, .data = data_, .reached = state.position};
  if (work_ && state.position.bytes.empty())
    description.reached = options_.stream->marked(options_.stream->begin(0));
  std::string text = to_json(description);
  constexpr size_t kRest = 1 << 16;  // of the message: names and addresses
  if (text.size() + kRest > kMaxMemberMessageBytes) {
    throw user_error(
        "the description of the job for the workers has {}, and at most {} can be sent: it lists {} images that are left out, and {} classes; repair or remove these images",
        bytes_text(text.size()), bytes_text(kMaxMemberMessageBytes - kRest), data_.left_out.count(),
        data_.found.class_names.size());
  }
  return text;
}

/// Where local servers listen: on the loopback, or where workers on other hosts reach the coordinator.
std::string ClusterRun::server_listen() const {
  if (starts_workers()) return "127.0.0.1:0";
  const Address address = Address::parse(options_.coordinate);
  if (address.host == "0.0.0.0" || address.host == "::")
    throw user_error(
        "workers join at {}, and the parameter servers of a stream are started here, too; name the host, so that workers can reach them",
        options_.coordinate);
  return Address{address.host, 0}.text();
}

void ClusterRun::start_servers() {
  const fs::path folder = fs::absolute(options_.folder) / "servers";
  fs::remove_all(folder);
  const int64_t servers = server_processes(job_.strategy);
  for (int64_t s = 0; s < servers; ++s) {
    const fs::path own = folder / std::to_string(s);
    fs::create_directories(own);
    ChildStart server = server_start(options_, job_.strategy, s, server_listen(), own);
    if (work_ && server_copies(job_.strategy) == 1)
      server.irreplaceable = std::bind_front(&ClusterRun::lost_server, this);
    processes_->start(std::move(server));
  }
  const auto end = Clock::now() + std::chrono::duration<double>(kServerStart);
  for (int64_t s = 0; s < servers; ++s) {
    const fs::path file = folder / std::to_string(s) / "address";
    std::string address;
    while (!(std::ifstream(file) >> address)) {
      processes_->check();
      if (give_up_.stop_requested()) throw run_error("the run was stopped before the training began");
      if (Clock::now() > end) {
        throw run_error("parameter server {} did not start to listen within {} s; see {}", s, kServerStart,
                        (options_.folder / "logs").string());
      }
      std::this_thread::sleep_for(10ms);
    }
    addresses_.push_back(address);
  }
}

void ClusterRun::connect() {
  if (server_copies(job_.strategy) > 1) connect_to_chains();
  {
    const std::scoped_lock lock(heads_mutex_);
    if (chains_) heads_ = chains_->heads();
    for (size_t s = 0; s < addresses_.size(); ++s) {
      StoreClientOptions options{.address = addresses_[s],
                                 .security = options_.security,
                                 .job = id_,
                                 .member = 0,
                                 .shared_memory = false,
                                 .takes_over = work_ && !chains_,
                                 .say = note(),
                                 .stop = give_up_.get_token()};
      if (chains_) {
        options.address = heads_[s].address;
        options.patience_seconds *= 2;  // chains_ decides first
        options.shard = static_cast<uint32_t>(s + 1);
        options.generation = heads_[s].generation;
      }
      clients_.push_back(std::make_unique<StoreClient>(std::move(options)));
    }
  }
  create_servers(only_store(program_), stores());
  connected_ = true;
}

void ClusterRun::connect_to_chains() {
  StoreChainsOptions options{
      .addresses = addresses_,
      .joined = {},
      .security = options_.security,
      .job = id_,
      .copies = static_cast<size_t>(server_copies(job_.strategy)),
      .shards = {},
      .generations_before = milliseconds_since_1970(),
      .moved = std::bind_front(&ClusterRun::moved, this),
      .joined_changed =
          [this](const std::vector<std::string>& joined) { write_joined(joined_servers(), joined, note()); },
      .failed = [this] { give_up_.request_stop(); },
      .say = note(),
      .stop = give_up_.get_token()};
  std::ifstream record(joined_servers());
  for (std::string address; record >> address;) options.joined.push_back(address);
  for (const ServerProgram& server : only_store(program_).servers)
    options.shards.push_back({.layout = stored_layout(server.pieces), .description = to_json(server)});
  chains_ = std::make_unique<StoreChains>(std::move(options));
  addresses_.resize(only_store(program_).servers.size());
}

/// Called from any thread.
void ClusterRun::moved(size_t server, const StoreHead& head) {
  const std::scoped_lock lock(heads_mutex_);
  if (heads_.empty()) return;  // connect() asks for them
  heads_[server] = head;
  clients_[server]->move(head);
  if (coordinator_) coordinator_->move(heads_);
}

/// Called by the coordinator's thread.
void ClusterRun::server_joins(const std::string& address) {
  const std::scoped_lock lock(joining_mutex_);
  if (!ending_) chains_->join(address);
}

/// Until the servers are connected, a request to stop ends the waits for them at once. Later the servers have
/// the state that is to be saved, so only those that have gone are not waited for.
void ClusterRun::watch_for_stop(const std::stop_token& over) {
  while (!over.stop_requested()) {
    if (options_.stop_requested() && (!connected_ || server_away())) give_up_.request_stop();
    std::this_thread::sleep_for(50ms);
  }
}

bool ClusterRun::server_away() const {
  return std::ranges::any_of(clients_,
                             [](const auto& client) { return client->seconds_away() > kAwayPatience; });
}

/// Starts workers until so many run.
void ClusterRun::start_workers(int64_t count) {
  std::vector<int64_t> others;
  for (int64_t w = 0; w < all_workers_of(job_.strategy); ++w)
    if (!processes_->has(worker_name(w))) others.push_back(w);
  int64_t running = all_workers_of(job_.strategy) - std::ssize(others);
  for (auto next = others.begin(); running < count; ++next, ++running)
    processes_->start(worker_start(options_, job_, *next, coordinator_->address()));
}

void ClusterRun::begin(const StepRange& range) {
  patience_.begin();
  if (work_) work_->begin(range);
  waiting_steps_ = 0;
  coordinator_->begin_epoch(static_cast<uint32_t>(range.epoch.epoch), range.first, range.end,
                            work_ ? work_->start().bytes : std::string());
}

/// Lets workers lease what has arrived.
void ClusterRun::extend_work() {
  if (patience_.drains()) return;
  waiting_steps_ = coordinator_->extend(work_->extend(waiting_steps_, seconds_since({})));
  if (const std::optional<std::string> why = work_->stalled()) note()("warning: " + *why);
}

/// Measures the load once a second, and lets workers come and go.
void ClusterRun::follow_load() {
  constexpr auto kEvery = 1s;
  if (Clock::now() - measured_ < kEvery) return;
  measured_ = Clock::now();
  const WorkerLoad load =
      meter_.measure(seconds_since({}), work_->existing(), work_->lag(), working(), waiting_steps_ > 0);
  if (!policy_) return;
  const int64_t before = policy_->wanted();
  const int64_t wanted = policy_->decide(load);
  if (wanted != before) {
    note()(fmt::format(
        "workers: {} instead of {}; the lag is {:.1f} s ({} messages), {:.0f} messages/s arrive, and a worker manages {:.0f}",
        wanted, before, load.lag_seconds(), load.lag, load.arriving, load.of_one));
    coordinator_->resize(wanted, starts_workers());
  }
  if (starts_workers()) start_workers(wanted);
}

std::vector<CompletedStep> ClusterRun::wait() {
  constexpr double kWait = 0.1;
  constexpr double kWaitForMessages = 0.01;  // a part of the latency
  check_servers();
  if (processes_) processes_->check();
  if (work_) extend_work();
  std::vector<StepDone> steps = coordinator_->wait(work_ ? kWaitForMessages : kWait);
  tell();
  for (const StepDone& step : steps) {
    staleness_sum_ += step.staleness;
    ++staleness_count_;
    meter_.done(step.samples, step.busy_seconds);
    patience_.step(seconds_since({}), step.seconds);
  }
  std::vector<CompletedStep> all = completed(std::move(steps));
  if (!work_) return all;
  for (CompletedStep& step : all) {
    StreamWork::Place place = work_->done(step.step);
    step.at = std::move(place.at);
    step.after = std::move(place.after);
  }
  follow_load();
  return all;
}

bool ClusterRun::finished() {
  if (coordinator_->epoch_finished() || give_up_.stop_requested()) return true;
  if (!patience_.over(seconds_since({}))) return false;
  const std::string why = fmt::format("the workers have completed no step for {:.0f} s", patience_.seconds());
  // The servers may have applied steps that come after one that nobody did; a resumed run would repeat them.
  if (trains_on_stream(job_.data)) throw run_error("{}, so nothing is saved; {}", why, how_to_continue());
  if (options_.say) options_.say(why + "; stopping without them");
  return true;
}

void ClusterRun::drain() {
  patience_.drain(seconds_since({}));
  coordinator_->drain();
}

int64_t ClusterRun::steps_done() { return coordinator_->steps_done(); }

Position ClusterRun::position() { return work_ ? options_.stream->marked(work_->position()) : Position(); }

std::optional<int64_t> ClusterRun::fetch(Session& session) {
  try {
    return read_servers(only_store(program_), stores(), session);
  } catch (const Error& error) {
    if (processes_) processes_->check();
    if (chains_) check_servers();
    if (give_up_.stop_requested())
      throw run_error("{}; its parameters could not be saved; {}", error.what(), how_to_continue());
    check_servers();
    throw;
  }
}

std::string ClusterRun::how_to_continue() const {
  const std::vector<fs::path> kept = list_checkpoints(options_.folder / "checkpoints");
  return kept.empty() ? "the run has no checkpoint yet"
                      : fmt::format("the run continues from its checkpoint {} with: telar train {} --resume",
                                    kept.front().filename().string(), options_.folder.string());
}

/// Ends a run of which no copy of a server's blocks is left, or takes it back to a checkpoint (CopiesLost);
/// without copies, ends the run of a stream whose server has been restarted, taken over by another
/// coordinator, or away for too long. Workers that meet it first are refused, too, and change nothing that is
/// saved.
void ClusterRun::check_servers() {
  if (chains_) return check_copies();
  if (!work_) return;
  for (const auto& client : clients_)
    if (const std::optional<Error> failure = client->failure())
      throw run_error("{}, {}", failure->what(), lost_server());
}

/// Workers of other hosts look for the coordinator of the run that has gone back to its checkpoint.
void ClusterRun::check_copies() {
  const std::optional<Error> failure = chains_->failure();
  if (!failure) return;
  const std::vector<fs::path> kept = list_checkpoints(options_.folder / "checkpoints");
  if (!chains_->copies_lost() || kept.empty() || !options_.goes_back || !options_.goes_back(kept.front()))
    throw Error(failure->kind(), fmt::format("{}; {}", failure->what(), how_to_continue()));
  note()(fmt::format("{}; the run goes back to its newest checkpoint", failure->what()));
  std::string coordinator = options_.coordinate;
  if (coordinator_) {
    coordinator_->abandon();
    if (!coordinator.empty()) coordinator = coordinator_->address();
  }
  throw CopiesLost(failure->what(), options_.folder, coordinator);
}

/// A server of a stream cannot be replaced: from its snapshot it would have neither its last updates nor the
/// numbers of the work that it had applied. Ends all waits for it.
std::string ClusterRun::lost_server() {
  give_up_.request_stop();
  return "so messages that its parameters had seen would be missing; " + how_to_continue();
}

std::vector<Store*> ClusterRun::stores() const {
  std::vector<Store*> stores;
  for (const auto& client : clients_) stores.push_back(client.get());
  return stores;
}

int64_t ClusterRun::working() const {
  const std::vector<MemberInfo> members = coordinator_->members();
  return std::ranges::count_if(members, &MemberInfo::working);
}

std::optional<int64_t> ClusterRun::wanted() const {
  return policy_ ? std::optional(policy_->wanted()) : std::nullopt;
}

std::optional<RunLosses> ClusterRun::losses() const {
  RunLosses losses{
      .servers = {}, .workers = coordinator_->losses(), .updates = updates_after(program_, staleness_count_)};
  for (const auto& client : clients_) losses.servers.push_back(client->losses());
  return before_.with(losses);
}

double ClusterRun::staleness() const {
  return staleness_count_ == 0 ? 0 : staleness_sum_ / static_cast<double>(staleness_count_);
}

}  // namespace telar
