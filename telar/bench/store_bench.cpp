#include "telar/bench/store_bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "telar/comm/store/store_client.h"
#include "telar/comm/store/store_server.h"
#include "telar/core/error.h"

namespace telar {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// At least 10 times and 1 s, after a warm-up of 3.
std::vector<double> repeat(const std::function<void()>& work) {
  for (int i = 0; i < 3; ++i) work();
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 10 || seconds_since(begin) < 1) {
    const auto start = Clock::now();
    work();
    times.push_back(seconds_since(start));
  }
  std::ranges::sort(times);
  return times;
}

double median_of(const std::function<void()>& work) {
  const std::vector<double> times = repeat(work);
  return times[times.size() / 2];
}

/// Plain SGD; with slots, each keeps a sum, so that its memory is in use.
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

/// A child process, ended with this object.
class Child {
 public:
  /// `work` tells its parent a line through the descriptor, and returns when the child is to wait for its end.
  explicit Child(const std::function<void(int)>& work) {
    int ends[2];
    if (pipe(ends) != 0) throw run_error("No pipe is to be had: {}.", std::strerror(errno));
    id_ = fork();
    if (id_ < 0) throw run_error("No process is to be had: {}.", std::strerror(errno));
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
  ~Child() {
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  const std::string& line() const { return line_; }
  /// Bytes: the largest size in memory so far.
  double largest_size() const {
    std::ifstream status(fmt::format("/proc/{}/status", id_));
    const std::string key = "VmHWM:";
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(key)) return std::stod(line.substr(key.size())) * 1024;
    throw run_error("/proc does not tell the size of process {}.", id_);
  }

 private:
  pid_t id_ = -1;
  std::string line_;
};

/// More often than anybody would, so that every push meets one.
constexpr double kSecondsBetweenSnapshots = 0.05;

void tell(int descriptor, const std::string& line) {
  if (write(descriptor, (line + "\n").c_str(), line.size() + 1) < 0) _exit(1);
}

/// `snapshots`: a folder in which the state is saved again and again; empty: none.
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

StoreTiming measure(const std::string& address, size_t bytes, bool shared_memory) {
  StoreClient client({.address = address, .job = "bench", .member = 1, .shared_memory = shared_memory});
  client.attach();
  std::ranges::fill(client.outgoing(), 1.0F);
  const StoreExchange exchange{
      .begin = 0, .end = bytes / sizeof(float), .learning_rate = 1e-3F, .samples = 1};
  const std::vector<double> times = repeat([&] {
    client.start(exchange);
    client.finish();
  });
  if (client.traffic().shared_memory != shared_memory)
    throw run_error("The parameter server of the measurement does not see this process's memory.");
  return {.bytes = bytes,
          .shared_memory = shared_memory,
          .median = times[times.size() / 2],
          .shortest = times.front(),
          .longest = times.back(),
          .repetitions = static_cast<int>(times.size())};
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

/// Sends back what it gets.
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

void measure_loopback(StoreBench& bench) {
  const Child child(echo);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::stoi("0" + child.line())));
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    throw run_error("The loopback cannot be measured: {}.", std::strerror(errno));
  const int one = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  std::vector<char> out(kEcho);
  std::vector<char> in(kEcho);
  constexpr size_t kSmall = 4096;
  bench.loopback_round_trip = median_of([&] {
    send_all(connection, out.data(), kSmall);
    receive_all(connection, in.data(), kSmall);
  });
  constexpr size_t kMessages = 40;
  const double large = median_of([&] {
    std::thread sender([&] {
      for (size_t i = 0; i < kMessages; ++i) send_all(connection, out.data(), kEcho);
    });
    for (size_t i = 0; i < kMessages; ++i) receive_all(connection, in.data(), kEcho);
    sender.join();
  });
  bench.loopback_bytes_per_second = 2.0 * kMessages * kEcho / large;
  close(connection);
}

constexpr size_t kMemoryBytes = size_t{40} << 20;
constexpr size_t kTinyBytes = 64;

/// A folder that goes with this object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "telar-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw run_error("No folder can be made in {}: {}.", name, std::strerror(errno));
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// A server of a little and one of much, with the same optimizer.
struct MemoryServers {
  MemoryServers(size_t count, bool save)
      : slots(count),
        saving(save),
        tiny([=, this](int descriptor) { serve(descriptor, count, save ? folder / "tiny" : ""); }),
        large([=, this](int descriptor) { serve(descriptor, count, save ? folder / "large" : ""); }) {}
  size_t slots;
  bool saving;
  Folder folder;
  Child tiny;
  Child large;
};

void push_from_four(const std::string& address, size_t bytes) {
  StoreClient({.address = address, .job = "bench"})
      .create(StoreLayout::of({{.name = "bench", .floats = bytes / sizeof(float)}}), "");
  std::vector<std::jthread> threads;
  for (const uint32_t member : {1U, 2U, 3U, 4U})
    threads.emplace_back([=] {
      StoreClient client({.address = address, .job = "bench", .member = member, .shared_memory = false});
      client.attach();
      StoreExchange exchange{
          .begin = 0, .end = client.outgoing().size(), .learning_rate = 1e-3F, .samples = 1};
      for (int64_t number = -9; number <= 10; ++number) {
        if (number > 0) exchange.round = StoreRound{.number = number, .members = {1, 2, 3, 4}};
        client.start(exchange);
        client.finish();
      }
    });
}

StoreMemoryFigure measure_memory(const MemoryServers& servers) {
  push_from_four(servers.tiny.line(), kTinyBytes);
  push_from_four(servers.large.line(), kMemoryBytes);
  const size_t arenas = (1 + servers.slots) * kMemoryBytes;
  return {.saving = servers.saving,
          .slots = servers.slots,
          .arenas = arenas,
          .beside = servers.large.largest_size() - servers.tiny.largest_size() - static_cast<double>(arenas),
          .allowed = 2 * kMemoryBytes};
}

double measure_copy() {
  constexpr size_t kBytes = size_t{40} << 20;
  std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  return 2.0 * kBytes / median_of([&] { std::memcpy(to.data(), from.data(), kBytes); });
}

}  // namespace

StoreBench bench_store(const std::vector<size_t>& bytes) {
  StoreBench bench;
  const Child server([](int descriptor) { serve(descriptor, 0); });
  const MemoryServers sgd(0, false);
  const MemoryServers adam(2, false);
  const MemoryServers saving_sgd(0, true);
  const MemoryServers saving_adam(2, true);
  if (server.line().empty()) throw run_error("The parameter server of the measurement did not come up.");
  measure_loopback(bench);
  bench.copy_bytes_per_second = measure_copy();
  const size_t largest = std::ranges::max(bytes);
  StoreClient creator({.address = server.line(), .job = "bench"});
  creator.create(StoreLayout::of({{.name = "bench", .floats = largest / sizeof(float)}}), "");
  for (const bool shared : {false, true})
    for (const size_t count : bytes) bench.timings.push_back(measure(server.line(), count, shared));
  for (const MemoryServers* servers : {&sgd, &adam, &saving_sgd, &saving_adam})
    bench.memory.push_back(measure_memory(*servers));
  return bench;
}

}  // namespace telar
