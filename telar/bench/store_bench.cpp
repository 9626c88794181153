#include "telar/bench/store_bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "telar/bench/limits.h"
#include "telar/bench/machine_watch.h"
#include "telar/bench/training_run.h"
#include "telar/comm/store/store_chains.h"
#include "telar/comm/store/store_client.h"
#include "telar/comm/store/store_server.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/temporary_folder.h"
#include "telar/observe/process.h"

namespace telar::bench {

namespace {

constexpr double kSecondsAnExchange = 1;  // for each figure
constexpr size_t kLarge = size_t{40} << 20;
constexpr size_t kSmall = 4096;

/// Plain SGD. If there are slots, it keeps a sum in each, so that their memory is used.
class SumUpdate : public StoreUpdate {
 public:
  explicit SumUpdate(size_t slots) {
    for (size_t i = 0; i < slots; ++i) slots_.push_back(fmt::format("state{}", i));
  }
  const std::vector<std::string>& slots() const override { return slots_; }
  bool apply(const Memory& memory, size_t begin, size_t end, const float* gradient,
             const StoreScalars& scalars) const override {
    float* parameters = memory.parameters + begin;
    const float rate = scalars.learning_rate / scalars.samples;
    for (size_t i = 0; i < end - begin; ++i) parameters[i] -= rate * gradient[i];
    for (float* state : memory.states)
      for (size_t i = 0; i < end - begin; ++i) state[begin + i] += gradient[i];
    return true;
  }

 private:
  std::vector<std::string> slots_;
};

/// A child process that is killed when this object is destroyed.
class ForkedChild {
 public:
  /// `work` writes one line for the parent to the descriptor. It returns only when the child may end.
  explicit ForkedChild(const std::function<void(int)>& work) {
    int ends[2];
    if (pipe(ends) != 0) throw run_error("cannot create a pipe: {}", std::strerror(errno));
    id_ = fork();
    if (id_ < 0) throw run_error("cannot create a process: {}", std::strerror(errno));
    if (id_ == 0) {
      close(ends[0]);
      work(ends[1]);
      _exit(0);
    }
    close(ends[1]);
    char letter = 0;
    while (read(ends[0], &letter, 1) == 1 && letter != '\n') line_ += letter;
    close(ends[0]);
  }
  ~ForkedChild() {
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;
  const std::string& line() const { return line_; }
  /// The peak memory of the process so far, in bytes.
  double largest_size() const {
    std::ifstream status(fmt::format("/proc/{}/status", id_));
    const std::string key = "VmHWM:";
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(key)) return std::stod(line.substr(key.size())) * 1024;
    throw run_error("/proc does not contain the size of process {}", id_);
  }

 private:
  pid_t id_ = -1;
  std::string line_;
};

/// Far more often than in practice, so that every push coincides with one.
constexpr double kSecondsBetweenSnapshots = 0.05;

void tell(int descriptor, const std::string& line) {
  if (write(descriptor, (line + "\n").c_str(), line.size() + 1) < 0) _exit(1);
}

/// `snapshots`: the folder in which the state is saved repeatedly; empty: no snapshots.
void serve(int descriptor, size_t slots, const std::string& snapshots = "") {
  StoreServerOptions options;
  options.snapshots = snapshots;
  options.snapshot_seconds = kSecondsBetweenSnapshots;
  options.make_update = [slots](const std::string&, const StoreLayout&) {
    return std::make_unique<SumUpdate>(slots);
  };
  const StoreServer server(options);
  tell(descriptor, server.address());
  pause();
}

StoreClientOptions client_of(const std::string& address, uint32_t member, bool shared_memory) {
  return {.address = address, .job = "bench", .member = member, .shared_memory = shared_memory};
}

Times measure_exchange(const StoreClientOptions& options, size_t bytes) {
  StoreClient client(options);
  client.attach();
  std::ranges::fill(client.outgoing(), 1.0F);
  StoreExchange exchange{.begin = 0, .end = bytes / sizeof(float), .learning_rate = 1e-3F, .samples = 1};
  Times times = time_calls(kSecondsAnExchange, [&] {
    ++exchange.work;
    client.start(exchange);
    client.finish();
  });
  if (client.traffic().shared_memory != options.shared_memory)
    throw run_error("the parameter server of the measurement does not share memory with this process");
  return times;
}

bool send_all(int descriptor, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t sent = send(descriptor, bytes, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<size_t>(sent);
  }
  return true;
}
bool receive_all(int descriptor, char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t received = recv(descriptor, bytes, count, 0);
    if (received <= 0) return false;
    bytes += received;
    count -= static_cast<size_t>(received);
  }
  return true;
}

constexpr size_t kEcho = size_t{1} << 20;

/// The speed of one TCP connection over the loopback.
struct Loopback {
  double round_trip_ms = 0;     ///< for 4 KiB
  double bytes_per_second = 0;  ///< in both directions at once
};

/// Sends back everything that it receives.
void echo(int descriptor) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 1) != 0) return;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  tell(descriptor, std::to_string(ntohs(address.sin_port)));
  const int connection = accept(listener, nullptr, nullptr);
  const int one = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  std::vector<char> bytes(kEcho);
  while (true) {
    const ssize_t received = recv(connection, bytes.data(), bytes.size(), 0);
    if (received <= 0 || !send_all(connection, bytes.data(), static_cast<size_t>(received))) return;
  }
}

Loopback measure_loopback() {
  const ForkedChild child(echo);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::stoi("0" + child.line())));
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    throw run_error("the loopback cannot be measured: {}", std::strerror(errno));
  const int one = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  std::vector<char> out(kEcho);
  std::vector<char> in(kEcho);
  Loopback loopback;
  const auto there_and_back = [&] {
    send_all(connection, out.data(), kSmall);
    receive_all(connection, in.data(), kSmall);
  };
  loopback.round_trip_ms = time_calls(kSecondsAnExchange, there_and_back).median();
  constexpr size_t kMessages = 40;
  const auto both_ways = [&] {
    std::thread sender([&] {
      for (size_t i = 0; i < kMessages; ++i) send_all(connection, out.data(), kEcho);
    });
    for (size_t i = 0; i < kMessages; ++i) receive_all(connection, in.data(), kEcho);
    sender.join();
  };
  loopback.bytes_per_second = 2e3 * kMessages * kEcho / time_calls(kSecondsAnExchange, both_ways).median();
  close(connection);
  return loopback;
}

constexpr size_t kTinyBytes = 64;

/// A server with few parameters and one with many, with the same optimizer.
struct MemoryServers {
  MemoryServers(size_t count, bool save)
      : slots(count),
        saving(save),
        tiny([=, this](int descriptor) {
          serve(descriptor, count, save ? (folder.path() / "tiny").string() : "");
        }),
        large([=, this](int descriptor) {
          serve(descriptor, count, save ? (folder.path() / "large").string() : "");
        }) {}
  size_t slots;
  bool saving;
  TemporaryFolder folder{"telar-bench"};
  ForkedChild tiny;
  ForkedChild large;
};

StoreLayout layout_of(size_t bytes) {
  return StoreLayout::of({{.name = "bench", .floats = bytes / sizeof(float)}});
}

/// Each pushes alone, and then all in rounds.
void push_from_four(const std::function<StoreClientOptions(uint32_t member)>& options) {
  std::vector<std::jthread> threads;
  for (const uint32_t member : {1U, 2U, 3U, 4U})
    threads.emplace_back([member, &options] {
      StoreClient client(options(member));
      client.attach();
      StoreExchange exchange{
          .begin = 0, .end = client.outgoing().size(), .learning_rate = 1e-3F, .samples = 1};
      for (int64_t number = -9; number <= 10; ++number) {
        exchange.work = number > 0 ? 100 + number : 10 * member - number;
        if (number > 0) exchange.round = StoreRound{.number = number, .members = {1, 2, 3, 4}};
        client.start(exchange);
        client.finish();
      }
    });
}

void push_from_four(const std::string& address, size_t bytes) {
  StoreClient({.address = address, .job = "bench"}).create(layout_of(bytes), "");
  push_from_four([&](uint32_t member) { return client_of(address, member, false); });
}

/// The peak memory of the server's process minus its parameters and state, and minus the peak of a server of
/// 64 bytes.
ResultRow memory_row(const MemoryServers& servers) {
  push_from_four(servers.tiny.line(), kTinyBytes);
  push_from_four(servers.large.line(), kLarge);
  const double arenas = static_cast<double>(1 + servers.slots) * kLarge;
  const double beside = servers.large.largest_size() - servers.tiny.largest_size() - arenas;
  constexpr double kMebi = 1 << 20;
  return {
      {fmt::format("memory of a server, {} of optimizer state{}", servers.slots == 0 ? "none" : "two kinds",
                   servers.saving ? ", while it saves snapshots" : ""),
       "gRPC, 4 members"},
      std::nullopt,
      "",
      {{"parameters and state", "MiB", arenas / kMebi},
       {"beside them", "MiB", beside / kMebi},
       {"allowed", "MiB", 2 * kLarge / kMebi}}};
}

/// Two servers, each of which has a copy of what the other one holds.
struct CopyingServers {
  explicit CopyingServers(size_t count)
      : slots(count),
        first([count](int descriptor) { serve(descriptor, count); }),
        second([count](int descriptor) { serve(descriptor, count); }) {}

  /// The coordinator's side. Each of the two holds so many bytes of parameters.
  void begin(size_t bytes) {
    const StoreChainsOptions::Shard shard{.layout = layout_of(bytes), .description = ""};
    chains = std::make_unique<StoreChains>(StoreChainsOptions{.addresses = {first.line(), second.line()},
                                                              .joined = {},
                                                              .security = {},
                                                              .job = "bench",
                                                              .shards = {shard, shard},
                                                              .moved = {},
                                                              .joined_changed = {},
                                                              .failed = {},
                                                              .say = {},
                                                              .stop = {}});
    const std::vector<float> zeros(shard.layout.floats);
    for (const size_t number : {0, 1}) StoreClient(client(number, 0, false)).write("", zeros, 0);
    chains->copy();
  }
  StoreClientOptions client(size_t shard, uint32_t member, bool shared_memory) const {
    const StoreHead head = chains->heads().at(shard);
    StoreClientOptions options = client_of(head.address, member, shared_memory);
    options.shard = static_cast<uint32_t>(shard + 1);
    options.generation = head.generation;
    return options;
  }
  /// The first one's, while members push to both.
  double largest_size(size_t bytes) {
    begin(bytes);
    const std::jthread other(
        [&] { push_from_four([&](uint32_t member) { return client(1, member, false); }); });
    push_from_four([&](uint32_t member) { return client(0, member, false); });
    return first.largest_size();
  }

  size_t slots;
  ForkedChild first;
  ForkedChild second;
  std::unique_ptr<StoreChains> chains;
};

/// As memory_row, of a server with copies of another one.
ResultRow memory_row(CopyingServers& tiny, CopyingServers& large) {
  const double arenas = 2 * static_cast<double>(1 + large.slots) * kLarge;
  const double beside = large.largest_size(kLarge) - tiny.largest_size(kTinyBytes) - arenas;
  constexpr double kMebi = 1 << 20;
  return {{fmt::format("memory of a server with copies, {} of optimizer state",
                       large.slots == 0 ? "none" : "two kinds"),
           "gRPC, 4 members"},
          std::nullopt,
          "",
          {{"parameters and state", "MiB", arenas / kMebi},
           {"beside them", "MiB", beside / kMebi},
           {"allowed", "MiB", 40}}};
}

std::string size_text(size_t bytes) {
  return bytes >= (size_t{1} << 20) ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

void add_exchanges(Result& result, const std::string& address, CopyingServers& copying) {
  const Loopback loopback = measure_loopback();
  StoreClient({.address = address, .job = "bench"}).create(layout_of(kLarge), "");
  const auto add_of = [&](const StoreClientOptions& client, size_t bytes, double limit_ms) {
    result.rows.push_back(
        {{"push and pull of " + size_text(bytes) + (client.shard > 0 ? ", with copies" : ""),
          client.shared_memory ? "shared memory" : "gRPC"},
         Measured{measure_exchange(client, bytes), 0, 2 * static_cast<double>(bytes), limit_ms, false,
                  std::nullopt},
         "",
         {}});
  };
  const auto add = [&](size_t bytes, bool shared_memory, double limit_ms) {
    add_of(client_of(address, 1, shared_memory), bytes, limit_ms);
  };
  add(kLarge, false, 2e3 * kLarge / loopback.bytes_per_second);
  add(kSmall, false, loopback.round_trip_ms);
  // The gradient is read, the parameters are read and written, and the worker's copy of them is written.
  add(kLarge, true, known_limits(available_threads()).milliseconds(DType::f32, 0, 4.0 * kLarge));
  // The other server, too, reads the gradient, in a copy that is written, and reads and writes parameters.
  copying.begin(kLarge);
  add_of(copying.client(0, 1, true), kLarge,
         known_limits(available_threads()).milliseconds(DType::f32, 0, 8.0 * kLarge));
  add(kSmall, true, 0);
  result.remarks.push_back(fmt::format(
      "One TCP connection over the loopback transfers {:.2f} GB/s in both directions, and 4 KiB there and back in {:.1f} µs; these are the limits for gRPC.",
      1e-9 * loopback.bytes_per_second, 1e3 * loopback.round_trip_ms));
}

constexpr const char* kDownpourJob = R"(model: convnet
data: {source: synthetic, samples: 20000, test_samples: 0, shape: [1, 28, 28], validation: 0}
training: {epochs: 1, batch: 64}
strategy: {name: downpour, servers: 1, threads: 1}
output: {tensorboard: false}
)";

TrainingRun run_downpour(const std::string& program, const TemporaryFolder& folder, int workers, int round) {
  return run_training({.program = program,
                       .job = folder.path() / "job.yaml",
                       .settings = {fmt::format("strategy.workers={}", workers)},
                       .folder = folder.path() / fmt::format("run-{}-{}", workers, round)},
                      {});
}

/// Adds the means over two rounds, in which the numbers of workers alternate.
void add_downpour(Result& result, const std::string& program) {
  constexpr int kRounds = 2;
  const TemporaryFolder folder("telar-bench");
  write_file(folder.path() / "job.yaml", kDownpourJob);
  std::array<double, 2> rates{};
  std::array<ResultRow, 2> rows;
  for (const int workers : {1, 2})
    rows[static_cast<size_t>(workers - 1)].setting = {
        "downpour, convnet, 1 server", fmt::format("{} × 1 thread", workers == 1 ? "1 worker" : "2 workers")};
  for (int round = 0; round < kRounds; ++round) {
    for (const int workers : {1, 2}) {
      const TrainingRun run = run_downpour(program, folder, workers, round);
      const auto i = static_cast<size_t>(workers - 1);
      rates[i] += run.figure("images_per_second").value_or(0) / kRounds;
      if (run.end == TrainingRun::End::failed) rows[i].impossible = run.failure;
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].impossible.empty())
      rows[i].figures = {{"images per second", "", rates[i]}, {"× one worker", "", rates[i] / rates[0]}};
    result.rows.push_back(rows[i]);
  }
}

}  // namespace

Result measure_parameter_servers(const StoreBenchOptions& options) {
  // Before this process starts any threads.
  const ForkedChild server([](int descriptor) { serve(descriptor, 0); });
  const MemoryServers sgd(0, false);
  const MemoryServers adam(2, false);
  const MemoryServers saving_sgd(0, true);
  const MemoryServers saving_adam(2, true);
  CopyingServers copying(0);
  CopyingServers copying_tiny(2);
  CopyingServers copying_large(2);
  if (server.line().empty()) throw run_error("the parameter server of the measurement did not start");
  const MachineWatch watch;
  Result result{
      "ps", "A parameter server and workers, each in its own process", {"what", "by"}, {}, "", 0, {}, {}};
  add_exchanges(result, server.line(), copying);
  for (const MemoryServers* servers : {&sgd, &adam, &saving_sgd, &saving_adam})
    result.rows.push_back(memory_row(*servers));
  result.rows.push_back(memory_row(copying_tiny, copying_large));
  if (!options.program.empty()) add_downpour(result, options.program);
  watch.finish(result);
  return result;
}

}  // namespace telar::bench
