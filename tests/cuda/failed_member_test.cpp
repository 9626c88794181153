// Members of an NCCL group that fail while the other members' GPUs have sums enqueued that will never
// complete.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "cuda/module_settings.h"
#include "support/make_session.h"
#include "support/sentences.h"
#include "telar/comm/thread_group.h"
#include "telar/device/cuda.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

using test::fake_of_module;
using test::make_session;
using test::Samples;
using test::SessionSetup;

void expect_error(const std::function<void()>& action, const std::vector<std::string_view>& parts) {
  test::expect_error(action, parts, Error::Kind::run);
}

/// Ends this program when `body` hangs: its threads cannot be ended in another way.
void in_time(const std::function<void()>& body) {
  auto done = std::async(std::launch::async, body);
  if (done.wait_for(std::chrono::seconds(60)) == std::future_status::timeout) {
    std::fputs("FAILED: it hangs\n", stderr);
    std::_Exit(1);
  }
  done.get();
}

/// Two GPUs. The second one gets nearly all of each batch: `times` the share of the first.
std::unique_ptr<Session> uneven_session(double times, double clip_norm) {
  SessionSetup setup{.replicas = 2, .mirrored = true, .devices = {"cuda:0", "cuda:1"}};
  setup.session.gpu_exchange = GpuExchange::nccl;
  setup.session.shares = {1, times};
  StepOptions options{.batch = 12, .optimizer = SgdOptions{}};
  if (clip_norm > 0) options.clip_norm = clip_norm;
  return make_session(make_model("mlp", {{"hidden", std::vector<int64_t>{64}}}, {1, 8, 8}, 10), options,
                      setup);
}

/// A step that is so large that its activations fit on the first GPU but not on the second.
void train_too_large_a_batch(Session& session) {
  const Samples samples(200, {1, 8, 8}, 10);
  BatchView large = samples.view();  // the second GPU's share is never read
  large.size = 100'000;
  session.begin(large, {.learning_rate = 0.01F, .step = 2});
}

TEST(FailedMember, ASessionWhoseGpuHasNotEnoughMemoryEndsWithThatError) {
  // The first GPU computes a few samples or none, so its sums are enqueued long before. Both with steps in
  // flight and with a wait in each step.
  for (const auto& [times, clip_norm] :
       std::vector<std::pair<double, double>>{{1e4, 0}, {1e4, 1}, {1e6, 0}}) {
    in_time([times = times, clip_norm = clip_norm] {
      fake_of_module().memory = size_t{16} << 20;
      auto session = uneven_session(times, clip_norm);
      ASSERT_TRUE(session->exchanges_by_nccl());
      const Samples samples(12, {1, 8, 8}, 10);
      session->begin(samples.view(), {.learning_rate = 0.01F, .step = 1});
      expect_error([&] { train_too_large_a_batch(*session); }, {"cuda:1 has not enough memory"});
      expect_error([&] { session->begin(samples.view(), {.learning_rate = 0.01F, .step = 3}); },
                   {"no longer sums", "a member of their group has failed"});
      fake_of_module() = {};
    });
  }
}

void fail_soon(ThreadTeam& team) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  team.fail(1);
}

/// Members of an NCCL group, each with one GPU.
struct TwoMembers {
  TwoMembers() {
    const std::string name = new_gpu_group();
    auto other = std::async(std::launch::async, [&] { join(1, name); });
    join(0, name);
    other.get();
  }
  void join(size_t member, const std::string& name) {
    groups[member] = join_gpu_group(*devices[member], team.member(static_cast<int>(member)), name);
  }
  void sum(size_t member) {
    const std::span<std::byte> bucket = groups[member]->allocate(256);
    groups[member]->start_reduce_scatter({reinterpret_cast<float*>(bucket.data()), 64});
    groups[member]->finish();
  }

  ThreadTeam team{2};
  std::array<std::unique_ptr<Device>, 2> devices = {make_cuda_device(0), make_cuda_device(1)};
  std::array<std::unique_ptr<Group>, 2> groups;
};

TEST(FailedMember, AMemberThatDoesNotJoinEndsTheOthers) {
  in_time([] {
    ThreadTeam team(2);
    const auto device = make_cuda_device(0);
    auto failure = std::async(std::launch::async, [&] { fail_soon(team); });
    expect_error([&] { join_gpu_group(*device, team.member(0), new_gpu_group()); }, {"replica 1 failed"});
  });
}

TEST(FailedMember, AMemberThatDoesNotComeToTheFirstSumEndsTheOthers) {
  in_time([] {
    TwoMembers two;
    auto failure = std::async(std::launch::async, [&] { fail_soon(two.team); });
    expect_error([&] { two.sum(0); }, {"replica 1 failed"});
  });
}

TEST(FailedMember, WhoWaitsForItsGpuIsToldWhichReplicaFailed) {
  in_time([] {
    TwoMembers two;
    auto other = std::async(std::launch::async, [&] { two.sum(1); });
    two.sum(0);
    other.get();
    two.sum(0);
    auto failure = std::async(std::launch::async, [&] { fail_soon(two.team); });
    expect_error([&] { two.devices[0]->synchronise(); }, {"replica 1 failed"});
    two.devices[0]->synchronise();  // nothing blocks it any more
  });
}

TEST(FailedMember, WhatNcclFindsMeanwhileEndsTheWaiting) {
  in_time([] {
    auto session = uneven_session(1, 0);
    const Samples samples(12, {1, 8, 8}, 10);
    session->begin(samples.view(), {.learning_rate = 0.01F, .step = 1});
    fake_of_module().nccl_error = 6;  // ncclRemoteError
    expect_error([&] { session->finished(true); }, {"NCCL: a sum failed: NCCL's words"});
    session.reset();
    fake_of_module().nccl_error = 0;
  });
}

}  // namespace
}  // namespace telar
