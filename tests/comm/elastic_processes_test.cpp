#include "telar/comm/linked/elastic_processes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "support/sentences.h"
#include "telar/comm/peers/peer_links.h"
#include "telar/comm/thread_group.h"

namespace telar::test {
namespace {

/// One of the threads that play processes.
struct Played {
  ElasticLinks& links;
  ElasticProcesses& processes;
  int rank;  ///< at the beginning
};

class ElasticProcessesTest : public testing::Test {
 protected:
  /// Calls work(played) for each of `count`.
  void together(int count, int least, const std::function<void(Played)>& work) {
    PeerMeeting meeting("127.0.0.1:0", count, "", {.security = security_, .say = {}});
    const auto play = [&](std::unique_ptr<ElasticLinks> links) {
      ElasticLinks& raw = *links;
      const int rank = raw.rank();
      ElasticProcesses processes(std::move(links), least);
      work({raw, processes, rank});
    };
    std::vector<std::jthread> others;
    for (int i = 1; i < count; ++i) others.emplace_back([&] { play(come(meeting)); });
    play(meeting.wait());
  }

  std::unique_ptr<ElasticLinks> come(const PeerMeeting& meeting) const {
    return std::move(join_peers(meeting.address(), 0, 20, {.security = security_, .say = {}})->links);
  }

  /// Ends all connections when the others have begun steps, too. The process finds itself alone.
  static void die(const Played& played) {
    EXPECT_THROW(
        {
          played.processes.any(false);
          played.links.leave();
          while (true) played.processes.any(false);
        },
        Error);
    played.links.leave();
    EXPECT_THROW(played.processes.replace(), Error);
  }

  Security security_{.token = "0123456789abcdef0123"};
};

/// The sum over all processes of 1 + a process's first rank, in buckets and in small values.
void expect_sums(const Played& played, float expected) {
  ThreadTeam team(1);
  const auto group = played.processes.join(team.member(0));
  const auto memory = group->allocate(sizeof(float) * 1000);
  const std::span bucket(reinterpret_cast<float*>(memory.data()), 1000);
  for (int step = 0; step < 3; ++step) {
    std::ranges::fill(bucket, static_cast<float>(1 + played.rank));
    group->start_reduce_scatter(bucket);
    group->finish();
    std::array<float, 1> value{static_cast<float>(1 + played.rank)};
    group->all_reduce(value);
    EXPECT_EQ(bucket[0], expected);
    EXPECT_EQ(bucket[999], expected);
    EXPECT_EQ(value[0], expected);
  }
}

/// Makes steps until somebody is lost.
void make_steps(
    const Played& played, const std::function<void()>& first = [] {}) {
  try {
    first();
    while (true) played.processes.any(false);
  } catch (const Error&) {
    if (!played.processes.lost()) throw;
  }
}

TEST_F(ElasticProcessesTest, ThoseWhoAreLeftAreAGroupInSharedMemoryAndByMessages) {
  for (const bool share : {true, false}) {
    together(4, 1, [&](const Played& played) {
      played.processes.share_memory(share);
      if (played.rank == 2) {
        expect_sums(played, 10);
        return die(played);
      }
      make_steps(played, [&] { expect_sums(played, 10); });
      const std::string lost = played.processes.replace().lost;
      played.processes.drop_earlier();
      if (played.rank == 0) {
        EXPECT_TRUE(says(lost, "rank 2 (")) << lost;
      }
      EXPECT_EQ(played.processes.size(), 3);
      EXPECT_EQ(played.processes.rank(), played.rank == 3 ? 2 : played.rank);
      EXPECT_EQ(played.processes.gather(std::to_string(played.rank)),
                (std::vector<std::string>{"0", "1", "3"}));
      if (played.rank == 1) {
        expect_sums(played, 7);
        return die(played);
      }
      make_steps(played, [&] { expect_sums(played, 7); });
      played.processes.replace();
      if (played.rank == 3) {
        expect_sums(played, 5);
        return die(played);
      }
      make_steps(played, [&] { expect_sums(played, 5); });
      played.processes.replace();
      EXPECT_EQ(played.processes.size(), 1);
      expect_sums(played, 1);
    });
  }
}

// A message of tag 5 that nobody took, and one that was asked for and never came.
TEST_F(ElasticProcessesTest, MessagesOfAnEarlierGenerationMeetNoneOfTheNext) {
  together(3, 1, [&](const Played& played) {
    ElasticProcesses& processes = played.processes;
    processes.share_memory(false);
    std::array<std::byte, 1> old{std::byte{1}};
    std::array<std::byte, 1> now{std::byte{2}};
    std::array<std::byte, 1> never{};
    std::unique_ptr<Transfer> forgotten;
    if (played.rank == 0) started(processes.message_to(1, 5, old));
    if (played.rank == 1) forgotten = started(processes.message_from(0, 6, never));
    processes.any(false);
    if (played.rank == 2) return die(played);
    make_steps(played);
    processes.replace();
    for (int i = 0; i < 2; ++i) {
      std::array<std::byte, 1> got{};
      const auto transfer = started(played.rank == 0 ? processes.message_to(1, 5 + i, now)
                                                     : processes.message_from(0, 5 + i, got));
      while (!transfer->done()) std::this_thread::yield();
      if (played.rank == 1) {
        EXPECT_EQ(got[0], std::byte{2});
      }
      if (i == 0) processes.drop_earlier();
    }
    EXPECT_EQ(never[0], std::byte{0});
    if (forgotten != nullptr) {
      EXPECT_FALSE(forgotten->done());
    }
  });
}

TEST_F(ElasticProcessesTest, OfTwoThatCannotReachEachOtherTheLastIsGivenUp) {
  together(3, 2, [&](const Played& played) {
    // A connection with a message of another size than is expected ends.
    std::array<std::byte, 2> bytes{};
    const auto transfer = played.rank == 1
                              ? played.links.to(2, Lane::members, 7, bytes)
                              : played.links.from(1, Lane::members, 7, std::span(bytes).first(1));
    if (played.rank == 2) transfer->start();
    played.processes.any(false);
    if (played.rank == 1) {
      played.processes.any(false);
      transfer->start();
    }
    make_steps(played);
    if (played.rank == 2) {
      EXPECT_TRUE(says(sentence_of([&] { played.processes.replace(); }, Error::Kind::run),
                       "rank 0 goes on without rank 2 ("));
      return;
    }
    played.processes.replace();
    expect_sums(played, 3);
  });
}

// The second one is lost while the others wait for its answer.
TEST_F(ElasticProcessesTest, AFurtherLossIsAnotherAttempt) {
  together(4, 2, [&](const Played& played) {
    if (played.rank == 1) return die(played);
    make_steps(played);
    if (played.rank == 3) return die(played);
    played.processes.replace();
    while (played.processes.size() > 2) {
      make_steps(played);
      played.processes.replace();
    }
    expect_sums(played, 4);
  });
}

TEST_F(ElasticProcessesTest, WithTooFewOrWithoutRank0AllEnd) {
  for (const int dies : {0, 2}) {
    together(3, 3, [&](const Played& played) {
      if (played.rank == dies) return die(played);
      make_steps(played);
      const std::string why = sentence_of([&] { played.processes.replace(); }, Error::Kind::run);
      const std::string expected = dies == 0          ? "the process of rank 0 ("
                                   : played.rank == 0 ? "2 of at least 3 processes are left"
                                                      : "rank 0 goes on without";
      EXPECT_TRUE(says(why, expected)) << why;
    });
  }
}

// Rank 2 is lost twice, and another process takes its place each time.
TEST_F(ElasticProcessesTest, OthersTakeThePlacesOfThoseWhoAreLost) {
  PeerMeeting meeting("127.0.0.1:0", 3, "the job", {.security = security_, .say = {}});
  const auto come = [&] {
    return join_peers(meeting.address(), 0, 20, {.security = security_, .say = {}}).value();
  };
  const auto wait_until = [](const std::function<bool()>& done) {
    while (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::atomic<bool> begun{false};
  /// Takes part until it is lost, or the others end.
  const auto newcomer = [&](bool last) {
    JoinedPeers joined = come();
    EXPECT_EQ(joined.description, "for newcomers");
    EXPECT_EQ(joined.links->rank(), 2);
    ElasticLinks& links = *joined.links;
    ElasticProcesses processes(std::move(joined.links), 1);
    EXPECT_TRUE(processes.waits());
    EXPECT_EQ(processes.size(), 1);
    processes.replace();
    processes.drop_earlier();
    EXPECT_FALSE(processes.waits());
    const Played played{links, processes, 2};
    expect_sums(played, 6);
    if (!last) return die(played);
    EXPECT_EQ(processes.gather("2").size(), 3U);
  };
  const auto stays = [&](std::unique_ptr<ElasticLinks> links) {
    ElasticLinks& raw = *links;
    const int rank = links->rank();
    ElasticProcesses processes(std::move(links), 1);
    const Played played{raw, processes, rank};
    if (rank == 0) processes.admit("for newcomers");
    if (rank == 0) begun = true;
    expect_sums(played, 6);
    if (rank == 2) return die(played);
    for (int round = 0; round < 2; ++round) {
      make_steps(played);  // until one is lost
      ElasticProcesses::Changes changes = processes.replace();
      processes.drop_earlier();
      if (rank == 0) {
        EXPECT_TRUE(says(changes.lost, "rank 2 (")) << changes.lost;
        EXPECT_EQ(changes.come, "");
        wait_until([&] { return processes.someone_waits(); });
      } else {
        make_steps(played);  // until rank 0 says that they are others
      }
      changes = processes.replace();
      processes.drop_earlier();
      if (rank == 0) {
        EXPECT_TRUE(says(changes.come, "rank 2 (")) << changes.come;
        EXPECT_EQ(changes.lost, "");
      }
      expect_sums(played, 6);
    }
    EXPECT_EQ(processes.gather(std::to_string(rank)), (std::vector<std::string>{"0", "1", "2"}));
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < 3; ++i) others.emplace_back([&] { stays(std::move(come().links)); });
  others.emplace_back([&] {
    wait_until([&] { return begun.load(); });
    newcomer(false);
    newcomer(true);
  });
  stays(meeting.wait());
}

/// Steps until a process is `done`; who has come takes part between two of them, and who is lost does not.
void make_steps_until(ElasticProcesses& processes, bool leads, const std::function<bool()>& done) {
  enum Word : int { kNewcomer, kDone, kGoOn };
  while (true) {
    try {
      const int word = processes.lowest(done()                               ? kDone
                                        : leads && processes.someone_waits() ? kNewcomer
                                                                             : kGoOn);
      if (word == kDone) return;
      if (word == kGoOn) continue;
    } catch (const Error&) {
      if (!processes.lost()) throw;
    }
    processes.replace();
    processes.drop_earlier();
  }
}

/// The first process, when the others that came with it are lost. Others may take their places.
struct Leader {
  explicit Leader(PeerMeeting& meeting) : Leader(meeting.wait()) {
    processes.admit("");
    until_alone();
  }
  explicit Leader(std::unique_ptr<ElasticLinks> owned) : links(*owned), processes(std::move(owned), 1) {}
  void until_alone() {
    while (processes.size() > 1) {
      make_steps({links, processes, 0});
      processes.replace();
      processes.drop_earlier();
    }
  }

  ElasticLinks& links;
  ElasticProcesses processes;
};

// Again and again: neither is given up because the two have not heard of each other.
TEST_F(ElasticProcessesTest, TwoThatComeAtTheSameMomentBothTakePart) {
  constexpr int kRounds = 12;
  PeerMeeting meeting("127.0.0.1:0", 3, "", {.security = security_, .say = {}});
  std::barrier both(2);
  std::vector<std::jthread> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([&] {
      for (int round = 0; round <= kRounds; ++round) {
        both.arrive_and_wait();
        auto links = come(meeting);
        ElasticLinks& raw = *links;
        ElasticProcesses processes(std::move(links), 1);
        if (round > 0) {
          processes.replace();
          processes.drop_earlier();
          make_steps_until(processes, false, [&] { return processes.size() == 3; });
        }
        die({raw, processes, raw.rank()});
      }
    });
  Leader leader(meeting);
  for (int round = 0; round < kRounds; ++round) {
    make_steps_until(leader.processes, true, [&] { return leader.processes.size() == 3; });
    leader.until_alone();
  }
}

TEST_F(ElasticProcessesTest, WhoEndsBeforeItTakesPartLeavesItsPlace) {
  PeerMeeting meeting("127.0.0.1:0", 2, "", {.security = security_, .say = {}});
  std::jthread other([&] {
    {
      auto links = come(meeting);
      ElasticLinks& raw = *links;
      ElasticProcesses processes(std::move(links), 1);
      die({raw, processes, 1});
    }
    EXPECT_TRUE(ElasticProcesses(come(meeting), 1).waits());
    ElasticProcesses newcomer(come(meeting), 1);
    newcomer.replace();
    newcomer.drop_earlier();
    make_steps_until(newcomer, false, [] { return true; });
  });
  Leader leader(meeting);
  make_steps_until(leader.processes, true, [] { return false; });
}

/// Comes, says that it is ready and, when it is asked, that it does nothing; then it is lost.
void be_lost_while_the_group_is_formed(ElasticLinks& links, std::chrono::microseconds after) {
  constexpr int kTagOfWords = 2;
  constexpr auto kLost = std::byte{0};
  constexpr auto kStopped = std::byte{2};
  std::array<std::byte, 5> word{kLost};
  const auto pass = [](const std::unique_ptr<Transfer>& transfer) {
    while (!transfer->done()) std::this_thread::yield();
  };
  pass(started(links.to(0, Lane::watch, kTagOfWords, word)));
  pass(started(links.from(0, Lane::watch, kTagOfWords, word)));
  word[0] = kStopped;
  pass(started(links.to(0, Lane::watch, kTagOfWords, word)));
  std::this_thread::sleep_for(after);
  links.leave();
}

// The next one gets the place when the group is formed; before, it would be taken for the one that is lost.
TEST_F(ElasticProcessesTest, WhoIsLostWhileTheGroupIsFormedIsFollowedByTheNext) {
  constexpr int kRounds = 20;
  PeerMeeting meeting("127.0.0.1:0", 2, "", {.security = security_, .say = {}});
  std::jthread others([&] {
    for (int round = 0; round <= kRounds; ++round) {
      std::optional<std::jthread> lost;
      if (round > 0)
        lost.emplace([round, links = come(meeting)] {
          be_lost_while_the_group_is_formed(*links, std::chrono::microseconds(200 * (round % 10)));
        });
      auto links = come(meeting);
      ElasticLinks& raw = *links;
      ElasticProcesses processes(std::move(links), 1);
      if (round > 0) {
        processes.replace();
        processes.drop_earlier();
        make_steps_until(processes, false, [] { return true; });
      }
      die({raw, processes, 1});
    }
  });
  Leader leader(meeting);
  for (int round = 0; round < kRounds; ++round) {
    make_steps_until(leader.processes, true, [] { return false; });
    leader.until_alone();
  }
}

TEST_F(ElasticProcessesTest, WhoComesWhenTheOthersEndIsToldSo) {
  PeerMeeting meeting("127.0.0.1:0", 2, "", {.security = security_, .say = {}});
  std::latch ready(1);
  std::jthread other([&] {
    {
      auto links = come(meeting);
      ElasticLinks& raw = *links;
      ElasticProcesses processes(std::move(links), 1);
      die({raw, processes, 1});
    }
    ElasticProcesses newcomer(come(meeting), 1);
    ready.count_down();
    while (!newcomer.replace().over) ADD_FAILURE() << "there was nobody to take part with";
  });
  const Leader leader(meeting);
  ready.wait();
}

// Again and again: one whose connection is made between the last words and the end would wait for ever, and
// the others for it.
TEST_F(ElasticProcessesTest, WhoComesWhileTheOthersSayTheirLastWordsHoldsNobody) {
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    PeerMeeting meeting("127.0.0.1:0", 3, "", {.security = security_, .say = {}});
    std::latch alone(1);
    std::vector<std::jthread> others;
    for (int i = 0; i < 2; ++i)
      others.emplace_back([&] {
        {
          auto links = come(meeting);
          ElasticLinks& raw = *links;
          ElasticProcesses processes(std::move(links), 1);
          die({raw, processes, raw.rank()});
        }
        alone.wait();
        try {
          auto joined = join_peers(meeting.address(), 0, 0, {.security = security_, .say = {}});
          if (!joined || joined->links == nullptr) return;
          ElasticProcesses newcomer(std::move(joined->links), 1);
          EXPECT_TRUE(newcomer.replace().over);
        } catch (const Error&) {  // it has ended
        }
      });
    const Leader leader(meeting);
    alone.count_down();
    std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
  }
}

}  // namespace
}  // namespace telar::test
