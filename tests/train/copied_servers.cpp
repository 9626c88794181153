#include "copied_servers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "io/temp_folder.h"
#include "support/paths.h"
#include "telar/comm/store/store_chains.h"
#include "telar/comm/store/store_client.h"
#include "telar/io/server_program.h"
#include "telar/runtime/stored_pieces.h"
#include "telar/train/local_processes.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kLongest = 2000;  // × 10 ms; only ends a test that fails

/// The process that has this word among its arguments.
int process_with(const std::string& word) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::stringstream words;
    words << file.rdbuf();
    if (words.str().find(word) != std::string::npos) return std::stoi(entry.path().filename());
  }
  return 0;
}

}  // namespace

class CopiedServers::Impl {
 public:
  explicit Impl(const StoreProgram& program) {
    StoreChainsOptions options{.addresses = {}, .security = {}, .job = "probe", .shards = {}, .stop = {}};
    for (size_t s = 0; s < 2; ++s) {
      const std::string file = address_file(s);
      processes_.start({.name = "server",
                        .words = {telar_program(), "serve", "--address-file", file, "--follow",
                                  std::to_string(::getpid())},
                        .environment = {},
                        .log = folder_ / "log"});
      options.addresses.emplace_back();
      for (int i = 0; i < kLongest && !(std::ifstream(file) >> options.addresses[s]); ++i)
        std::this_thread::sleep_for(10ms);
      options.shards.push_back(
          {.layout = stored_layout(program.servers[s].pieces), .description = to_json(program.servers[s])});
    }
    options.generations_before = 1;
    options.moved = [this](size_t server, const StoreHead& head) { moved(server, head); };
    options.say = [this](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      complete_ += sentence.ends_with("have 2 copies") ? 1 : 0;
    };
    addresses_ = options.addresses;
    chains_ = std::make_unique<StoreChains>(options);
    const std::lock_guard lock(mutex_);
    heads_ = chains_->heads();
  }
  ~Impl() { chains_.reset(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::unique_ptr<StoreClient> connect(size_t server, uint32_t member, std::stop_token stop) {
    const std::lock_guard lock(mutex_);
    // As if each member and one of the servers had a host of their own.
    const auto is_here = [here = addresses_[member % 2]](const std::string& address) {
      return address == here;
    };
    auto client = std::make_unique<StoreClient>(StoreClientOptions{.address = heads_[server].address,
                                                                   .security = {},
                                                                   .job = "probe",
                                                                   .member = member,
                                                                   .shared_memory = false,
                                                                   .shard = static_cast<uint32_t>(server + 1),
                                                                   .generation = heads_[server].generation,
                                                                   .copy = heads_[server].copy,
                                                                   .is_here = is_here,
                                                                   .say = {},
                                                                   .stop = std::move(stop)});
    clients_.insert({server, client.get()});
    return client;
  }
  void forget(size_t server, StoreClient* client) {
    const std::lock_guard lock(mutex_);
    clients_.erase({server, client});
  }

  void copy(int every) {
    chains_->copy();
    every_ = every;
  }
  int spare() {
    const std::lock_guard lock(killing_);
    every_ = 0;
    return killed_;
  }

  /// A push is on its way.
  void pushed() {
    const std::lock_guard lock(killing_);
    if (every_ == 0 || ++pushes_ % every_ != 0) return;
    // Both copies of both servers, at the start and after each kill.
    for (int i = 0; i < kLongest && complete() < killed_ + 1; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_GE(complete(), killed_ + 1) << "after " << killed_ << " kills";
    const int process = process_with(address_file(static_cast<size_t>(killed_ % 2)));
    EXPECT_GT(process, 0);
    if (process > 0) ::kill(process, SIGKILL);
    ++killed_;
  }

 private:
  std::string address_file(size_t server) const {
    return (folder_ / fmt::format("address-{}", server)).string();
  }
  int complete() {
    const std::lock_guard lock(mutex_);
    return complete_;
  }
  void moved(size_t server, const StoreHead& head) {
    const std::lock_guard lock(mutex_);
    if (heads_.empty()) return;
    heads_[server] = head;
    for (const auto& [of, client] : clients_)
      if (of == server) client->move(head);
  }

  TempFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> addresses_;
  std::vector<StoreHead> heads_;
  std::set<std::pair<size_t, StoreClient*>> clients_;
  int complete_ = 0;
  std::mutex killing_;
  int every_ = 0;
  int pushes_ = 0;
  int killed_ = 0;
  LocalProcesses processes_{{}};
  std::unique_ptr<StoreChains> chains_;
};

/// A member's access, whose pushes are counted.
class CopiedServers::Access final : public Store {
 public:
  Access(std::shared_ptr<Impl> servers, size_t server, uint32_t member, std::stop_token stop)
      : servers_(std::move(servers)),
        server_(server),
        store_(servers_->connect(server, member, std::move(stop))) {}
  ~Access() override { servers_->forget(server_, store_.get()); }

  bool create(const StoreLayout& layout, const std::string& description) override {
    return store_->create(layout, description);
  }
  const StoreLayout& layout() override { return store_->layout(); }
  const StoreLayout& attach() override { return store_->attach(); }
  std::vector<std::string> slots() override { return store_->slots(); }
  int64_t read(const std::string& arena, std::span<float> values) override {
    return store_->read(arena, values);
  }
  void write(const std::string& arena, std::span<const float> values, int64_t updates) override {
    store_->write(arena, values, updates);
  }
  std::span<float> outgoing() override { return store_->outgoing(); }
  std::span<const float> incoming() const override { return std::as_const(*store_).incoming(); }
  void start(const StoreExchange& exchange) override {
    store_->start(exchange);
    if (exchange.push) servers_->pushed();
  }
  StoreReport finish() override { return store_->finish(); }

 private:
  std::shared_ptr<Impl> servers_;
  size_t server_;
  std::unique_ptr<StoreClient> store_;
};

CopiedServers::CopiedServers(const StoreProgram& program) : impl_(std::make_shared<Impl>(program)) {}
CopiedServers::~CopiedServers() = default;
std::unique_ptr<Store> CopiedServers::connect(size_t server, uint32_t member, std::stop_token stop) {
  return std::make_unique<Access>(impl_, server, member, std::move(stop));
}
void CopiedServers::copy(int every) { impl_->copy(every); }
int CopiedServers::spare() { return impl_->spare(); }

}  // namespace telar::test
