#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/make_session.h"
#include "support/sanitizers.h"
#include "telar/core/waiting.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The numbers of this process's threads.
std::set<int32_t> threads_here() {
  std::set<int32_t> threads;
  for (const auto& entry : fs::directory_iterator("/proc/self/task"))
    threads.insert(std::stoi(entry.path().filename().string()));
  return threads;
}

std::vector<size_t> allowed_processors() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<size_t> processors;
  for (size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  return processors;
}

void bind(int32_t thread, size_t processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  sched_setaffinity(thread, sizeof only, &only);
}

/// Two threads that use a processor while this object exists.
class BusyProcessor {
 public:
  explicit BusyProcessor(size_t processor) {
    for (std::jthread& thread : threads_) {
      thread = std::jthread([processor](const std::stop_token& stop) {
        bind(thread_id(), processor);
        while (!stop.stop_requested()) continue;
      });
    }
  }

 private:
  std::array<std::jthread, 2> threads_;
};

/// The part of a processor's time that a thread gets there now.
double part_of_processor(size_t processor) {
  double part = 0;
  std::jthread([&] {
    bind(thread_id(), processor);
    const auto start = Clock::now();
    const auto used_before = processor_time(thread_id());
    while (Clock::now() < start + std::chrono::milliseconds(500)) continue;
    const std::chrono::duration<double, std::nano> past = Clock::now() - start;
    part = static_cast<double>(processor_time(thread_id()) - used_before) / past.count();
  }).join();
  return part;
}

TEST(SharedProcessor, MovesSamplesToTheReplicaThatHasItsOwn) {
  const std::vector<size_t> processors = allowed_processors();
  if (processors.size() < 2) GTEST_SKIP() << "there is only one processor";
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's threads have times of their own";
  const std::set<int32_t> before = threads_here();
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>{512, 512}}}, {1, 16, 16}, 10);
  auto session =
      test::make_session(model, {.batch = 512},
                         {.replicas = 2, .mirrored = true, .session = {.seed = 11, .measured_shares = true}});
  std::set<int32_t> replicas;
  for (const int32_t thread : threads_here())
    if (!before.contains(thread)) replicas.insert(thread);
  ASSERT_EQ(replicas.size(), 2U);
  bind(*replicas.begin(), processors[0]);
  bind(*replicas.rbegin(), processors[1]);
  const BusyProcessor other(processors[1]);

  const test::Samples samples(512, {1, 16, 16}, 10);
  const auto end = Clock::now() + std::chrono::seconds(60);
  bool moved = false;
  for (int64_t step = 1; !moved && Clock::now() < end; ++step) {
    session->train(samples.view(), {.learning_rate = 0.01F, .step = step, .epoch = 0});
    const std::vector<double> shares = session->shares();
    moved = shares[0] > 1.4 * shares[1] || shares[1] > 1.4 * shares[0];
  }
  if (!moved && part_of_processor(processors[0]) < 0.8) GTEST_SKIP() << "other programs use both processors";
  EXPECT_TRUE(moved) << "the shares stayed " << session->shares()[0] << " and " << session->shares()[1];
}

}  // namespace
}  // namespace telar
