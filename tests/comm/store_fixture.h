#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "telar/comm/store/store_client.h"
#include "telar/comm/store/store_server.h"
#include "telar/core/error.h"

namespace telar {

/// parameters -= rate × sum / samples. Stores the step number in the slot "steps".
class PlainUpdate : public StoreUpdate {
 public:
  const std::vector<std::string>& slots() const override { return slots_; }
  bool apply(const Memory& memory, size_t begin, size_t end, const float* gradient,
             const StoreScalars& scalars) const override {
    bool finite = true;
    for (size_t i = begin; i < end; ++i) {
      finite &= std::isfinite(gradient[i - begin]);
      memory.parameters[i] -= scalars.learning_rate * (gradient[i - begin] / scalars.samples);
      memory.states[0][i] = scalars.step;
    }
    return finite;
  }

 private:
  std::vector<std::string> slots_{"steps"};
};

inline StoreUpdateFactory plain_updates() {
  return [](const std::string& description, const StoreLayout&) -> std::unique_ptr<StoreUpdate> {
    if (description != "plain") throw user_error("the optimizer '{}' is unknown; plain is", description);
    return std::make_unique<PlainUpdate>();
  };
}

/// Collects messages from any thread.
class SentenceLog {
 public:
  std::function<void(const std::string&)> say() {
    return [this](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      sentences_ += sentence + "\n";
    };
  }
  std::string all() const {
    const std::lock_guard lock(mutex_);
    return sentences_;
  }
  /// Waits up to 10 s for a message that contains this part.
  bool hears(const std::string& part) const {
    for (int i = 0; i < 1000; ++i) {
      if (all().find(part) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  mutable std::mutex mutex_;
  std::string sentences_;
};

inline StoreLayout layout_of(size_t floats) { return StoreLayout::of({{.name = "w", .floats = floats}}); }

/// A parameter server with clients. Clients use frames over gRPC unless a test turns shared_memory on.
class StoreTest : public ::testing::Test {
 protected:
  SentenceLog log_;

  std::unique_ptr<StoreServer> serve(const std::string& listen = "127.0.0.1:0",
                                     const std::string& snapshots = "") {
    return std::make_unique<StoreServer>(server_options(listen, snapshots));
  }
  StoreServerOptions server_options(const std::string& listen, const std::string& snapshots) {
    StoreServerOptions options;
    options.listen = listen;
    options.snapshots = snapshots;
    options.snapshot_seconds = 3600;
    options.round_seconds = 0.6;
    options.make_update = plain_updates();
    options.say = log_.say();
    return options;
  }
  StoreClientOptions client_options(const StoreServer& server, uint32_t member) {
    StoreClientOptions options;
    options.address = server.address();
    options.job = "job";
    options.member = member;
    options.shared_memory = false;
    options.patience_seconds = 20;
    return options;
  }
  std::unique_ptr<StoreClient> connect(const StoreServer& server, uint32_t member = 1) {
    return std::make_unique<StoreClient>(client_options(server, member));
  }
  /// A client that has created the arenas (or found them) and attached.
  std::unique_ptr<StoreClient> attached(const StoreServer& server, size_t floats, uint32_t member = 1) {
    auto client = connect(server, member);
    client->create(layout_of(floats), "plain");
    client->attach();
    return client;
  }
  static std::vector<float> values(size_t count, float first, float step) {
    std::vector<float> all(count);
    for (size_t i = 0; i < count; ++i) all[i] = first + step * static_cast<float>(i % 1000);
    return all;
  }
  static void fill(StoreClient& client, float value) { std::ranges::fill(client.outgoing(), value); }
  static StoreExchange whole(StoreClient& client) {
    return {.begin = 0, .end = client.outgoing().size(), .learning_rate = 1, .samples = 1};
  }
};

}  // namespace telar
