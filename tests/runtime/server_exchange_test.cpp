#include "telar/runtime/server_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/make_session.h"
#include "telar/comm/store/local_store.h"
#include "telar/io/payload.h"
#include "telar/nn/zoo.h"
#include "telar/runtime/server_state.h"
#include "telar/runtime/server_update.h"
#include "telar/strategy/server_side.h"

namespace telar {
namespace {

/// A worker's exchange with one server, which applies plain SGD with the rate 1. The values of its arenas are
/// those of one variable after the other.
class Exchange {
 public:
  Exchange()
      : program_(make_strategy("async_sgd")
                     .rewrite(make_training_step(
                                  make_model("mlp", {{"hidden", std::vector<int64_t>{64}}}, {64}, 3), {}),
                              Cluster{.devices = {DeviceSpec{}}, .servers = 1})),
        server_(program_updates()),
        device_(make_cpu_device(1, {})),
        store_(server_.connect(1)) {
    std::vector<std::pair<std::string, TensorLayout>> plain;
    for (const ParameterInfo& parameter : program_.parameters)
      plain.emplace_back(parameter.name, device_->plain_layout(parameter.shape));
    arena_ = ArenaLayout::pack(plain);
    stores_ = {store_.get()};
    create_servers(only_store(program_), stores_);
    exchange_.emplace(only_store(program_), stores_, program_.parameters, arena_, *device_);
    parameters_.resize(arena_.bytes / sizeof(float));
  }

  /// Pushes the gradient `mean` of every value, of `samples` samples, and pulls.
  void push(float mean, float samples, const ServerExchange::Form& form) {
    const std::vector<float> sums(parameters_.size(), mean * samples);
    exchange_->push_gradients(
        reinterpret_cast<const std::byte*>(sums.data()), 1,
        {.push = true, .pull = true, .learning_rate = 1, .samples = samples, .form = form},
        reinterpret_cast<std::byte*>(parameters_.data()));
  }

  /// The pulled values of the first layer's weights.
  std::span<const float> weights() const {
    const ArenaLayout::Entry& entry = arena_.find("fc1.weight");
    return std::span(parameters_).subspan(entry.offset / sizeof(float), 64 * 64);
  }

 private:
  Program program_;
  LocalStoreServer server_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Store> store_;
  std::vector<Store*> stores_;
  ArenaLayout arena_;
  std::optional<ServerExchange> exchange_;
  std::vector<float> parameters_;
};

TEST(ServerExchange, WhatAPushLeavesOverIsAddedToTheNextAsAMean) {
  const uint16_t largest = payload_number("largest");
  Exchange exchange;
  exchange.push(0.5F, 8, {largest, 0.25});
  EXPECT_EQ(std::ranges::count(exchange.weights(), -0.5F), 1024);
  EXPECT_EQ(std::ranges::count(exchange.weights(), 0.0F), 3072);
  exchange.push(0.25F, 1, {largest, 1});
  EXPECT_EQ(std::ranges::count(exchange.weights(), -0.75F), 4096) << "one sample does not multiply the rest";
}

}  // namespace
}  // namespace telar
