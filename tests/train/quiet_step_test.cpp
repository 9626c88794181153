#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/temp_folder.h"
#include "telar/comm/linked/elastic_processes.h"
#include "telar/comm/linked/linked_processes.h"
#include "telar/comm/peers/peer_links.h"
#include "telar/train/job_reader.h"
#include "telar/train/run.h"

namespace telar {
namespace {

class CountedTransfer final : public Transfer {
 public:
  CountedTransfer(std::unique_ptr<Transfer> transfer, std::atomic<int>& sent)
      : transfer_(std::move(transfer)), sent_(sent) {}
  void start() override {
    ++sent_;
    transfer_->start();
  }
  bool done() override { return transfer_->done(); }

 private:
  std::unique_ptr<Transfer> transfer_;
  std::atomic<int>& sent_;
};

/// Counts the messages that are sent, but not those by which processes watch each other. Each process seems
/// to be on a host of its own, so nothing passes through memory.
template <typename Links>
class CountedLinks : public Links {
 public:
  CountedLinks(std::unique_ptr<Links> links, std::atomic<int>& sent)
      : links_(std::move(links)), sent_(sent) {}
  int rank() const override { return links_->rank(); }
  int size() const override { return links_->size(); }
  std::string name(int rank) const override { return links_->name(rank); }
  std::string host(int rank) const override { return std::to_string(rank); }
  std::unique_ptr<Transfer> to(int rank, Lane lane, int tag, std::span<const std::byte> bytes) override {
    auto transfer = links_->to(rank, lane, tag, bytes);
    if (lane == Lane::watch) return transfer;
    return std::make_unique<CountedTransfer>(std::move(transfer), sent_);
  }
  std::unique_ptr<Transfer> from(int rank, Lane lane, int tag, std::span<std::byte> bytes) override {
    return links_->from(rank, lane, tag, bytes);
  }
  void check() const override { links_->check(); }
  void rest() const override { links_->rest(); }
  void all_reduce(std::span<float> values) override { links_->all_reduce(values); }
  void leave() override { links_->leave(); }
  void abort(int code, const std::string& why) override { links_->abort(code, why); }

 protected:
  std::unique_ptr<Links> links_;
  std::atomic<int>& sent_;
};

class CountedElasticLinks final : public CountedLinks<ElasticLinks> {
 public:
  using CountedLinks::CountedLinks;
  std::unique_ptr<ProcessLinks> generation(uint16_t generation, std::vector<int> ranks,
                                           std::function<void()> look) override {
    return std::make_unique<CountedLinks<ProcessLinks>>(
        links_->generation(generation, std::move(ranks), std::move(look)), sent_);
  }
  void drop_before(uint16_t generation) override { links_->drop_before(generation); }
  std::string why_lost(int rank) const override { return links_->why_lost(rank); }
  bool has_left(int rank) const override { return links_->has_left(rank); }
  int leader() const override { return links_->leader(); }
  std::string address() const override { return links_->address(); }
  void admit(const std::string& description) override { links_->admit(description); }
  void set_members(const std::vector<int>& ranks) override { links_->set_members(ranks); }
  std::vector<int> newcomers() override { return links_->newcomers(); }
  bool has_taken_place() const override { return links_->has_taken_place(); }
};

/// The messages of two processes that train for so many epochs of 9 steps.
int messages(const std::string& strategy, int epochs) {
  const test::TempFolder folder;
  const Job job = parse_job(
      fmt::format("model: {{name: mlp, options: {{hidden: [16]}}}}\n"
                  "data: {{source: synthetic, samples: 320, test_samples: 0, shape: [1, 6, 6], classes: 3}}\n"
                  "training: {{epochs: {}, batch: 32}}\nstrategy: {{threads: 1, {}}}\n"
                  "output: {{folder: {}, tensorboard: false, checkpoint_epochs: 0}}\n",
                  epochs, strategy, (folder / "run").string()),
      "job.yaml");
  std::atomic<int> sent = 0;
  const Security security{.token = "0123456789abcdef0123"};
  const auto train = [&](std::unique_ptr<ElasticLinks> links) {
    auto counted = std::make_unique<CountedElasticLinks>(std::move(links), sent);
    RunOptions options;
    std::unique_ptr<Processes> processes;
    if (job.strategy.min_workers == 0) {
      processes = std::make_unique<LinkedProcesses>(std::move(counted));
    } else {
      auto elastic = std::make_unique<ElasticProcesses>(std::move(counted), 1);
      options.elastic = elastic.get();
      processes = std::move(elastic);
    }
    options.processes = processes.get();
    run_job(job, options);
  };
  PeerMeeting meeting("127.0.0.1:0", 2, "", {.security = security, .say = {}});
  std::jthread other([&] {
    train(std::move(join_peers(meeting.address(), 0, 20, {.security = security, .say = {}})->links));
  });
  train(meeting.wait());
  other.join();
  return sent;
}

// A copy of the state is one every 10,000 steps here; without it, a step is as if nobody could be lost.
TEST(QuietStep, SendsNoMessageMoreWhereAProcessMayBeLost) {
  for (const std::string strategy :
       {"name: mirrored, replicas: 1",
        "name: sharded, stage: 2, replicas: 1, whole_below: 16, keep_steps: 10000",
        "name: tensor, ways: 2, split: ['fc1=columns'], keep_steps: 10000",
        "name: pipeline, stages: 2, keep_steps: 10000"}) {
    const auto of_an_epoch = [&](const std::string& more) {
      return messages(strategy + more, 3) - messages(strategy + more, 2);
    };
    const int quiet = of_an_epoch("");
    EXPECT_GT(quiet, 9) << strategy;
    EXPECT_EQ(of_an_epoch(", min_workers: 1"), quiet) << strategy;
  }
}

}  // namespace
}  // namespace telar
