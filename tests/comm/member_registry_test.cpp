#include "telar/comm/members/member_registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "support/sentences.h"

namespace telar::test {
namespace {

using Clock = std::chrono::steady_clock;

CoordinatorOptions rounds_of(int64_t workers, int64_t backups = 0) {
  CoordinatorOptions options;
  options.workers = workers;
  options.backups = backups;
  options.rhythm = Rhythm::rounds;
  options.parts = workers;
  options.sizes.lease = 1;
  return options;
}

/// The registry, and its replies to each member.
class Table {
 public:
  explicit Table(const CoordinatorOptions& options) : registry(options) {}

  uint32_t join(const std::string& name) { return registry.join(name); }

  /// A member that has joined and requested work.
  uint32_t worker(const std::string& name) {
    const uint32_t id = registry.join(name);
    registry.ask_work(id, now);
    return id;
  }

  void read() {
    for (MemberRegistry::Answer& answer : registry.take_answers())
      answers_[answer.member].push_back(std::move(answer.value));
    for (std::string& sentence : registry.take_news()) news.push_back(std::move(sentence));
    for (StepDone& step : registry.take_steps()) steps.push_back(std::move(step));
  }

  /// The next reply to this member, if it is of this kind.
  template <typename Value>
  std::optional<Value> answer(uint32_t id) {
    read();
    auto& all = answers_[id];
    if (all.empty() || !std::holds_alternative<Value>(all.front())) return std::nullopt;
    Value value = std::get<Value>(all.front());
    all.pop_front();
    return value;
  }

  bool has_work(uint32_t id) { return answer<MemberRegistry::WorkThere>(id).has_value(); }
  bool may_go_on(uint32_t id) { return answer<MemberRegistry::MayGoOn>(id).has_value(); }
  bool silent(uint32_t id) {
    read();
    return answers_[id].empty();
  }

  std::optional<Lease> lease(uint32_t id) {
    registry.ask_lease(id);
    return note(id, answer<std::optional<Lease>>(id).value());
  }
  /// The member has computed all parts that it holds of this piece of work.
  void ask_round(uint32_t id, int64_t work) { registry.ask_round(id, work, leases_[{id, work}]); }

  std::vector<uint32_t> round(uint32_t id) {
    const auto round = answer<StoreRound>(id);
    if (!round || round->members.empty()) return {};
    last_round = round->number;
    return round->members;
  }
  /// Whether this member's next reply says that the update is made without it.
  bool without(uint32_t id) {
    const auto round = answer<StoreRound>(id);
    return round.has_value() && round->members.empty();
  }
  /// The lease that this member gets in place of a round or a turn.
  std::optional<Lease> further(uint32_t id) {
    return note(id, answer<std::optional<Lease>>(id).value_or(std::nullopt));
  }

  void done(uint32_t id, const Lease& lease, int64_t step, std::vector<double> metrics = {1}) {
    registry.done(id, {.lease = lease.id, .step = step, .samples = 10, .metrics = std::move(metrics)});
  }
  void done(uint32_t id, const Lease& lease) {
    for (int64_t step = lease.begin; step < lease.end; ++step) done(id, lease, step);
  }

  MemberRegistry registry;
  Clock::time_point now = Clock::now();
  std::vector<std::string> news;
  std::vector<StepDone> steps;
  int64_t last_round = 0;

 private:
  std::optional<Lease> note(uint32_t id, std::optional<Lease> lease) {
    if (lease) leases_[{id, lease->works.front()}].insert(lease->id);
    return lease;
  }

  std::map<uint32_t, std::deque<MemberRegistry::AnswerValue>> answers_;
  std::map<std::pair<uint32_t, int64_t>, std::set<uint64_t>> leases_;  ///< by member and piece of work
};

using Members = std::vector<uint32_t>;

int64_t work_of(const Lease& lease, int64_t step) {
  return lease.works.at(static_cast<size_t>(step - lease.begin));
}

CoordinatorOptions free_of(int64_t workers) {
  CoordinatorOptions options;
  options.workers = workers;
  options.sizes.lease = 2;
  return options;
}

TEST(MemberRegistry, StepsOfAStreamAreLeasedWithTheirPlacesWhenTheyExist) {
  Table table(free_of(2));
  table.registry.begin_epoch(0, 4, 100, "p4");
  const uint32_t a = table.worker("a");
  EXPECT_FALSE(table.has_work(a));
  EXPECT_FALSE(table.lease(a).has_value());
  table.registry.extend({"p5", "p6", "p7"});
  EXPECT_TRUE(table.has_work(a));
  EXPECT_EQ(table.registry.unbegun(), 3);
  const Lease first = *table.lease(a);
  EXPECT_EQ(first.places, (std::vector<std::string>{"p4", "p5", "p6"}));
  EXPECT_EQ(table.registry.unbegun(), 1);
  const Lease second = *table.lease(a);
  EXPECT_EQ(second.places, (std::vector<std::string>{"p6", "p7"}));
  table.done(a, first);
  table.registry.extend({"p8"});
  table.registry.remove(a);
  const uint32_t b = table.worker("b");
  EXPECT_TRUE(table.has_work(b));
  const Lease again = *table.lease(b);
  EXPECT_EQ(again.begin, 6);
  EXPECT_EQ(again.places, (std::vector<std::string>{"p6", "p7"})) << "the same messages";
  EXPECT_EQ(again.works, second.works);
  EXPECT_EQ(table.lease(b)->places, (std::vector<std::string>{"p7", "p8"}));
  EXPECT_FALSE(table.lease(b).has_value());
}

TEST(MemberRegistry, WorkersComeAndGoWithoutLosingTheirLeases) {
  Table table(free_of(1));
  table.registry.begin_epoch(0, 0, 100);
  const uint32_t a = table.worker("a");
  const uint32_t b = table.worker("b");
  EXPECT_TRUE(table.has_work(a));
  EXPECT_TRUE(table.silent(b));
  table.registry.resize(2, false);
  EXPECT_TRUE(table.has_work(b)) << "a spare steps in";
  const Lease held = *table.lease(b);
  table.registry.resize(1, false);
  EXPECT_FALSE(table.lease(b).has_value()) << "no further lease";
  table.done(b, held, held.begin);
  EXPECT_TRUE(table.registry.members()[1].working) << "it has a step of its lease to do";
  table.done(b, held, held.begin + 1);
  EXPECT_FALSE(table.registry.members()[1].working);
  EXPECT_EQ(table.steps.size() + table.registry.take_steps().size(), 2U);
  table.registry.ask_work(b, table.now);
  EXPECT_TRUE(table.silent(b)) << "it waits as a spare";
  table.registry.resize(1, true);
  EXPECT_TRUE(table.answer<MemberRegistry::Leave>(b).has_value()) << "spares are not needed";
  EXPECT_EQ(table.registry.members().size(), 1U);
  EXPECT_EQ(table.registry.name(b), "a former member (2)");
  const uint32_t late = table.worker("c");
  EXPECT_TRUE(table.answer<MemberRegistry::Leave>(late).has_value());
  EXPECT_TRUE(table.lease(a).has_value());
  MemberRegistry rounds(rounds_of(2));
  expect_error([&] { rounds.resize(3, false); }, {"changes only without rounds"});
}

/// The number of news of silent members, after so many further seconds.
size_t silent_members(Table& table, int seconds, const std::function<void(int)>& each = {}) {
  for (int i = 0; i < seconds; ++i) {
    table.now += std::chrono::seconds(1);
    if (each) each(i);
    table.registry.tick(table.now);
  }
  table.read();
  return static_cast<size_t>(std::ranges::count_if(table.news, [](const std::string& text) {
    return text.find("completed nothing for") != std::string::npos;
  }));
}

TEST(MemberRegistry, AMemberThatHoldsALeaseAndReportsNothingIsNamed) {
  Table table(free_of(2));
  table.registry.begin_epoch(0, 0, 100);
  const uint32_t a = table.worker("a");
  table.worker("b");  // it holds nothing
  EXPECT_TRUE(table.has_work(a));
  const Lease lease = *table.lease(a);
  EXPECT_EQ(silent_members(table, 29), 0U);
  EXPECT_EQ(silent_members(table, 30), 1U);
  EXPECT_EQ(table.news.back(), "warning: a holds a lease, but has completed nothing for 30 s");
  EXPECT_EQ(silent_members(table, 1), 1U);
  EXPECT_EQ(silent_members(table, 1), 2U);
  EXPECT_EQ(table.news.back(), "warning: a holds a lease, but has completed nothing for 60 s");
  EXPECT_EQ(silent_members(table, 200), 4U) << "after 120 and 240 s";
  table.done(a, lease, lease.begin);
  EXPECT_EQ(silent_members(table, 1), 4U);
  EXPECT_EQ(table.news.back(), "a goes on, after 261 s in which it completed nothing");
  EXPECT_EQ(silent_members(table, 29), 4U);
  EXPECT_EQ(silent_members(table, 30), 5U) << "again";
  table.done(a, lease, lease.begin + 1);
  EXPECT_EQ(silent_members(table, 60), 5U) << "it holds nothing any more";
  EXPECT_EQ(table.news.back(), "a goes on, after 60 s in which it completed nothing");
  table.lease(a);
  table.now += std::chrono::minutes(5);  // the coordinator was stopped
  EXPECT_EQ(silent_members(table, 29), 5U);
}

TEST(MemberRegistry, AMemberWhosePartsTakeLongIsNotSilent) {
  Table table(free_of(1));
  table.registry.begin_epoch(0, 0, 100);
  const uint32_t a = table.worker("a");
  EXPECT_TRUE(table.has_work(a));
  for (int i = 0; i < 3; ++i) {
    const Lease lease = *table.lease(a);
    for (int64_t step = lease.begin; step < lease.end; ++step)
      table.registry.done(a, {.lease = lease.id, .step = step, .seconds = 6});
  }
  table.lease(a);
  EXPECT_EQ(silent_members(table, 59), 0U);
  EXPECT_EQ(silent_members(table, 3), 1U);
}

TEST(MemberRegistry, TheSpareThatWaitedLongestStepsIn) {
  Table table(rounds_of(2));
  table.registry.begin_epoch(0, 0, 6);
  const uint32_t a = table.worker("a");
  const uint32_t b = table.worker("b");
  const uint32_t c = table.worker("c");
  const uint32_t d = table.worker("d");
  EXPECT_EQ(a, 1U);
  EXPECT_TRUE(table.has_work(a));
  EXPECT_TRUE(table.has_work(b));
  EXPECT_FALSE(table.has_work(c));
  EXPECT_FALSE(table.lease(c).has_value());
  EXPECT_EQ(table.lease(a)->part, 0);
  EXPECT_EQ(table.lease(b)->part, 1);

  table.registry.remove(a);
  EXPECT_TRUE(table.has_work(c));
  EXPECT_FALSE(table.has_work(d));
  const auto lease = table.lease(c);
  EXPECT_EQ(lease->part, 0);
  EXPECT_EQ(lease->begin, 0) << "the steps that the lost member had not done";
  table.read();
  EXPECT_EQ(table.news,
            (std::vector<std::string>{"a joined as worker 1", "b joined as worker 2", "c joined as a spare",
                                      "d joined as a spare", "c steps in"}));
  const auto members = table.registry.members();
  ASSERT_EQ(members.size(), 3U);
  EXPECT_TRUE(members[0].working && members[1].working);
  EXPECT_FALSE(members[2].working);
}

TEST(MemberRegistry, TheFirstEpochWaitsForAllWorkersForALimitedTime) {
  Table table(rounds_of(2));
  table.registry.begin_epoch(0, 0, 6);
  const uint32_t a = table.worker("a");
  table.join("b");  // still compiling
  EXPECT_FALSE(table.has_work(a));
  EXPECT_FALSE(table.lease(a).has_value());
  table.registry.tick(table.now + std::chrono::seconds(9));
  EXPECT_FALSE(table.has_work(a));
  table.registry.tick(table.now + std::chrono::seconds(10));
  EXPECT_TRUE(table.has_work(a));
}

TEST(MemberRegistry, ARoundHasAllPartsOfABatchInTheirOrder) {
  Table table(rounds_of(3));
  table.registry.begin_epoch(0, 0, 3);
  const Members all{table.worker("a"), table.worker("b"), table.worker("c")};
  for (const uint32_t id : all) EXPECT_TRUE(table.has_work(id));
  for (int64_t step = 0; step < 3; ++step) {
    std::map<uint32_t, Lease> leases;
    for (const uint32_t id : all) {
      leases[id] = *table.lease(id);
      EXPECT_EQ(leases[id].part, id - 1);
      EXPECT_EQ(leases[id].works, (std::vector<int64_t>{step + 1})) << "all parts are one piece of work";
    }
    table.ask_round(3, step + 1);
    table.ask_round(1, step + 1);
    EXPECT_TRUE(table.silent(1) && table.silent(3));
    table.ask_round(2, step + 1);
    for (const uint32_t id : all) {
      EXPECT_EQ(table.round(id), all);
      EXPECT_EQ(table.last_round, step + 1);
      table.done(id, leases[id]);
    }
  }
  EXPECT_TRUE(table.registry.epoch_finished());
  table.read();
  for (const std::string& text : table.news) EXPECT_EQ(text.find("missing"), std::string::npos) << text;
}

TEST(MemberRegistry, AFasterMemberLeavesAPartToItsMember) {
  Table table(rounds_of(2));
  table.registry.begin_epoch(0, 0, 2);
  const uint32_t a = table.worker("a");
  const uint32_t b = table.worker("b");
  table.has_work(a);
  table.has_work(b);
  EXPECT_EQ(table.lease(a)->begin, 0);
  EXPECT_EQ(table.lease(a)->begin, 1);
  EXPECT_FALSE(table.lease(a).has_value());
  table.ask_round(a, 1);
  EXPECT_TRUE(table.silent(a)) << "b is about to take its lease";
  EXPECT_EQ(table.lease(b)->part, 1);
  table.ask_round(b, 1);
  EXPECT_EQ(table.round(a), (Members{a, b}));
}

TEST(MemberRegistry, TheOthersComputeThePartsOfAWorkerThatNeverComes) {
  CoordinatorOptions options = rounds_of(3);
  options.gather_seconds = 1;
  Table table(options);
  table.registry.begin_epoch(0, 0, 2);
  const uint32_t a = table.worker("a");
  const uint32_t b = table.worker("b");
  table.registry.tick(table.now + std::chrono::seconds(1));
  EXPECT_TRUE(table.has_work(a) && table.has_work(b));
  EXPECT_EQ(
      table.news.back(),
      "warning: 1 of 3 workers is missing; the others compute its parts of each batch until another is there");
  EXPECT_EQ(table.lease(a)->part, 0);
  EXPECT_EQ(table.lease(b)->part, 1);
  EXPECT_EQ(table.lease(b)->part, 2);
  EXPECT_EQ(table.lease(a)->begin, 1) << "an equal share, as far as possible";
  table.ask_round(a, 1);
  table.ask_round(b, 1);
  EXPECT_EQ(table.round(a), (Members{a, b}));
  const size_t news = table.news.size();
  table.worker("c");
  table.read();
  EXPECT_EQ(table.news.size(), news + 1) << "it joined";
}

TEST(MemberRegistry, AMemberThatIsReadyTakesThePartsOfALostOne) {
  Table table(rounds_of(3));
  table.registry.begin_epoch(0, 0, 6);
  const uint32_t a = table.worker("a");
  const uint32_t b = table.worker("b");
  const uint32_t c = table.worker("c");
  for (const uint32_t id : {a, b, c}) {
    table.has_work(id);
    table.lease(id);
    table.lease(id);  // of the next step
  }
  table.ask_round(a, 1);
  table.registry.remove(c);
  const std::optional<Lease> taken = table.further(a);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->begin, 0);
  EXPECT_EQ(taken->part, 2);
  EXPECT_FALSE(taken->applied);
  table.ask_round(b, 1);
  EXPECT_TRUE(table.silent(b)) << "a computes the part";
  table.ask_round(a, 1);
  EXPECT_EQ(table.round(a), (Members{a, b})) << "all parts are there";
  EXPECT_EQ(table.round(b), (Members{a, b}));
  table.read();
  EXPECT_NE(table.news.back().find("1 of 3 workers is missing"), std::string::npos);
}

TEST(MemberRegistry, AMemberWithLaterWorkWaitsForItsTurnOrGetsTheEarlier) {
  Table table(rounds_of(2));
  table.registry.begin_epoch(0, 0, 6);
  const uint32_t a = table.worker("a");
  const uint32_t b = table.worker("b");
  table.has_work(a);
  table.has_work(b);
  const Lease first = *table.lease(a);
  table.lease(b);
  table.registry.ask_pace(b, 1);
  EXPECT_TRUE(table.may_go_on(b));
  table.registry.remove(b);
  EXPECT_EQ(table.lease(a)->begin, 0) << "what b has left";
  const uint32_t c = table.worker("c");
  EXPECT_TRUE(table.has_work(c));
  EXPECT_EQ(table.lease(c)->begin, 1);
  table.registry.ask_pace(c, 2);
  table.ask_round(a, 1);
  EXPECT_EQ(table.round(a), Members{a});
  EXPECT_TRUE(table.silent(c)) << "a has not reported that step 0 is done";
  table.registry.remove(a);
  const std::optional<Lease> earlier = table.further(c);
  ASSERT_TRUE(earlier.has_value());
  EXPECT_EQ(earlier->part, first.part);
  EXPECT_EQ(earlier->works, first.works);
  EXPECT_FALSE(earlier->applied) << "nobody knows whether it is";
  table.registry.ask_pace(c, 1);
  EXPECT_TRUE(table.may_go_on(c));
}

TEST(MemberRegistry, AReportThatHasTimeKeepsNobodyFromTheNextPiece) {
  Table table(rounds_of(2));
  table.registry.begin_epoch(0, 0, 2);
  const uint32_t a = table.worker("a");
  const uint32_t b = table.worker("b");
  const uint32_t c = table.worker("c");
  table.has_work(a);
  table.has_work(b);
  table.lease(a);
  const Lease first = *table.lease(b);
  table.ask_round(a, 1);
  table.ask_round(b, 1);
  EXPECT_EQ(table.round(b), (Members{a, b}));
  table.done(b, first);
  const Lease second = *table.lease(b);
  table.ask_round(b, 2);
  table.registry.remove(a);  // it has pushed, and reported nothing
  const std::optional<Lease> unreported = table.further(b);
  ASSERT_TRUE(unreported.has_value());
  EXPECT_EQ(unreported->begin, 0);
  EXPECT_TRUE(unreported->applied) << "b has had its update";
  table.ask_round(b, 2);  // what it evaluates for others comes later
  EXPECT_TRUE(table.has_work(c));
  const Lease other = *table.lease(c);
  EXPECT_EQ(other.begin, 1);
  table.registry.ask_pace(c, 2);
  EXPECT_TRUE(table.may_go_on(c)) << "b waits for it";
  table.ask_round(c, 2);
  EXPECT_EQ(table.round(b), (Members{c, b}));
  EXPECT_EQ(table.round(c), (Members{c, b}));
  table.done(c, other);
  table.done(b, second);
  EXPECT_EQ(table.registry.steps_done(), 0);
  table.done(b, *unreported);
  EXPECT_TRUE(table.registry.epoch_finished());
}

TEST(MemberRegistry, AMemberWhoseRoundWasMadeWithoutItReportsItsPart) {
  Table table(rounds_of(2));
  table.registry.begin_epoch(0, 0, 2);
  const uint32_t a = table.worker("a");
  const uint32_t b = table.worker("b");
  table.has_work(a);
  table.has_work(b);
  const Lease of_a = *table.lease(a);
  const Lease of_b = *table.lease(b);
  table.ask_round(a, 1);
  table.ask_round(b, 1);
  EXPECT_EQ(table.round(a).size(), 2U);
  EXPECT_EQ(table.round(b).size(), 2U);
  table.registry.give_back(b, of_b.id, 0);  // a restarted server has told it so
  const Lease again = *table.lease(b);
  table.registry.ask_round(b, 1, {again.id});
  EXPECT_TRUE(table.silent(b));
  table.done(a, of_a);
  EXPECT_TRUE(table.without(b));
  table.done(b, again);
  EXPECT_EQ(table.registry.steps_done(), 1);
}

TEST(MemberRegistry, ABackupCopiesAPartThatIsNotReady) {
  Table table(rounds_of(2, 1));
  table.registry.begin_epoch(0, 0, 30);
  const uint32_t a = table.worker("a");
  const uint32_t b = table.worker("b");
  const uint32_t c = table.worker("c");
  EXPECT_TRUE(table.has_work(a) && table.has_work(b));
  EXPECT_TRUE(table.silent(c)) << "there is nothing to copy yet";
  table.lease(a);
  const Lease of_b = *table.lease(b);
  EXPECT_TRUE(table.has_work(c));
  table.ask_round(a, 1);
  const Lease copy = *table.lease(c);
  EXPECT_EQ(copy.part, 1);
  EXPECT_EQ(copy.works, of_b.works);
  table.ask_round(c, 1);
  EXPECT_EQ(table.round(a), (Members{a, c})) << "whoever is first";
  EXPECT_EQ(table.round(c), (Members{a, c}));
  table.done(c, copy);
  table.ask_round(b, 1);
  EXPECT_TRUE(table.without(b));
  table.done(b, of_b);
  table.read();
  EXPECT_TRUE(table.steps.empty()) << "a has not reported yet, and what b reports counts no more";
  EXPECT_EQ(table.lease(b)->begin, 1);
}

TEST(MemberRegistry, RoundsContinueFromTheGivenNumber) {
  CoordinatorOptions options = rounds_of(1);
  options.rounds_before = 41;
  Table table(options);
  table.registry.begin_epoch(0, 0, 1);
  const uint32_t a = table.worker("a");
  table.has_work(a);
  table.lease(a);
  table.ask_round(a, 1);
  EXPECT_EQ(table.round(a), Members{a});
  EXPECT_EQ(table.last_round, 42);
}

TEST(MemberRegistry, APieceOfWorkHasTheSameNumberWhoeverGetsIt) {
  CoordinatorOptions options;
  options.workers = 1;
  options.parts = 2;
  options.sizes.lease = 2;
  Table table(options);
  std::vector<int64_t> numbers;
  const auto work = [&](uint32_t id, int64_t most) {
    for (int64_t i = 0; i < most; ++i) {
      const std::optional<Lease> lease = table.lease(id);
      if (!lease) return;
      for (int64_t step = lease->begin; step < lease->end; ++step) {
        numbers.push_back(work_of(*lease, step));
        table.registry.done(id, {.lease = lease->id, .step = step});
      }
    }
  };
  uint32_t id = table.worker("a");
  const std::vector<std::pair<int64_t, int64_t>> ranges = {{5, 8}, {8, 9}, {0, 3}};
  uint32_t epoch = 0;
  for (const auto& [first, end] : ranges) {
    table.registry.begin_epoch(epoch++, first, end);
    table.has_work(id);
    work(id, 1);
    const std::optional<Lease> lost = table.lease(id);
    table.registry.remove(id);
    id = table.worker("next");
    table.has_work(id);
    const std::optional<Lease> found = table.lease(id);
    ASSERT_TRUE(lost && found);
    EXPECT_EQ(work_of(*lost, lost->begin), work_of(*found, found->begin));
    for (int64_t step = found->begin; step < found->end; ++step) {
      numbers.push_back(work_of(*found, step));
      table.registry.done(id, {.lease = found->id, .step = step});
    }
    work(id, 100);
    EXPECT_TRUE(table.registry.epoch_finished());
  }
  std::ranges::sort(numbers);
  std::vector<int64_t> all;
  for (int64_t number = 1; number <= 7; ++number) all.insert(all.end(), 2, number);
  EXPECT_EQ(numbers, all) << "both parts of a step have its number";
}

TEST(MemberRegistry, SumsFollowTheOrderOfPartsNotOfArrival) {
  std::vector<double> sums;
  for (const bool backwards : {false, true}) {
    CoordinatorOptions options;
    options.workers = 3;
    options.parts = 3;
    Table table(options);
    table.registry.begin_epoch(4, 0, 1);
    std::vector<std::pair<uint32_t, Lease>> all;
    for (const char* name : {"a", "b", "c"}) {
      const uint32_t id = table.worker(name);
      table.has_work(id);
      all.emplace_back(id, *table.lease(id));
    }
    if (backwards) std::ranges::reverse(all);
    for (const auto& [id, lease] : all) {
      const double value = lease.part == 0 ? 1e16 : lease.part == 1 ? 1.0 : -1e16;
      table.registry.done(id, {.lease = lease.id,
                               .step = 0,
                               .samples = 5,
                               .metrics = {value, 2},
                               .staleness = static_cast<double>(lease.part),
                               .seconds = static_cast<double>(lease.part)});
    }
    table.read();
    ASSERT_EQ(table.steps.size(), 1U);
    const StepDone& step = table.steps[0];
    EXPECT_EQ(step.epoch, 4U);
    EXPECT_EQ(step.samples, 15);
    EXPECT_EQ(step.metrics[1], 6);
    EXPECT_EQ(step.staleness, 1);
    EXPECT_EQ(step.seconds, 2);
    sums.push_back(step.metrics[0]);
  }
  EXPECT_EQ(sums[0], sums[1]);
}

class Paced : public Table {
 public:
  explicit Paced(int64_t bound) : Table(options_of(bound)) {
    registry.begin_epoch(0, 0, 60);
    for (const char* name : {"a", "b"}) {
      const uint32_t id = worker(name);
      has_work(id);
      leases[id] = *lease(id);
    }
  }

  bool begins_another(uint32_t id) {
    registry.ask_pace(id, 1);
    return may_go_on(id);
  }
  void finish_one(uint32_t id) { done(id, leases[id], leases[id].begin++); }

  std::map<uint32_t, Lease> leases;

 private:
  static CoordinatorOptions options_of(int64_t bound) {
    CoordinatorOptions options;
    options.workers = 2;
    options.parts = 1;
    options.sizes.lease = 20;
    options.staleness_bound = bound;
    return options;
  }
};

TEST(MemberRegistry, AStalenessBoundHoldsBackFastMembers) {
  Paced table(2);
  for (int ahead = 0; ahead < 2; ++ahead) {
    EXPECT_TRUE(table.begins_another(1));
    table.finish_one(1);
  }
  EXPECT_TRUE(table.begins_another(1));
  table.finish_one(1);
  EXPECT_FALSE(table.begins_another(1)) << "three ahead";
  EXPECT_TRUE(table.begins_another(2)) << "the slowest never waits";
  table.finish_one(2);
  EXPECT_TRUE(table.may_go_on(1));
}

TEST(MemberRegistry, WithoutABoundNobodyWaits) {
  Paced table(-1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(table.begins_another(1));
    table.finish_one(1);
  }
}

TEST(MemberRegistry, ALostMemberHoldsNobodyBackAndANewOneStartsAtTheSlowest) {
  Paced table(0);
  table.finish_one(1);
  EXPECT_FALSE(table.begins_another(1));
  table.registry.remove(2);
  EXPECT_TRUE(table.may_go_on(1));
  table.finish_one(1);
  const uint32_t c = table.worker("c");
  EXPECT_TRUE(table.has_work(c));
  table.lease(c);
  EXPECT_TRUE(table.begins_another(1)) << "c starts at the step of member 1";
}

TEST(MemberRegistry, RefusesImpossibleReports) {
  CoordinatorOptions options;
  Table table(options);
  table.registry.begin_epoch(0, 0, 9);
  const uint32_t a = table.worker("a");
  table.has_work(a);
  const Lease lease = *table.lease(a);
  const auto report = [&](const PartDone& part) {
    return [&table, a, part] { table.registry.done(a, part); };
  };
  expect_error(report({.lease = lease.id, .step = 0, .samples = -1}), {"-1 samples"});
  expect_error(report({.lease = lease.id, .step = 0, .metrics = std::vector<double>(200'000)}),
               {"200000 metrics"});
  expect_error(report({.lease = lease.id, .step = 0, .staleness = std::nan("")}), {"staleness"});
  expect_error(report({.lease = lease.id, .step = 0, .seconds = std::numeric_limits<double>::infinity()}),
               {"inf"});
  table.registry.done(a, {.lease = 12345, .step = 0});
  table.registry.done(a, {.lease = lease.id, .step = -5});
  table.registry.done(a, {.lease = lease.id, .step = std::numeric_limits<int64_t>::max()});
  table.registry.give_back(a, 0, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(table.registry.steps_done(), 0);

  CoordinatorOptions none;
  none.workers = 0;
  expect_error([&] { MemberRegistry{none}; }, {"0 workers"});
}

/// Simulates members that behave like workers, in a random order of events, and servers that apply a round
/// when all of its members have pushed, and discard it when one of them is lost. If `failures`, some are lost
/// and others join, but not for ever, since that would end a wait of the others.
class Simulation {
 public:
  Simulation(uint32_t seed, int64_t workers, int64_t backups, int64_t come)
      : random_(seed), table_(options(workers, backups)), parts_(workers) {
    for (int64_t i = 0; i < come; ++i) join();
  }

  void run(bool failures) {
    table_.registry.begin_epoch(0, 0, kSteps);
    table_.registry.tick(table_.now);
    std::ptrdiff_t changes = failures ? 1 + below(20) : 0;
    for (int turn = 0; !table_.registry.epoch_finished(); ++turn) {
      ASSERT_LT(turn, 100'000) << "hangs";
      if (changes > 0 && below(20) == 0) {
        --changes;
        if (below(2) == 0)
          join();
        else if (all_.size() > 1)
          lose(std::next(all_.begin(), below(all_.size()))->first);
      }
      if (turn % 50 == 0) table_.registry.tick(table_.now += std::chrono::seconds(1));
      auto& [id, one] = *std::next(all_.begin(), below(all_.size()));
      act(id, one);
    }
    table_.read();
    ASSERT_EQ(table_.steps.size(), static_cast<size_t>(kSteps));
    ASSERT_EQ(applied_, kSteps) << "each batch is applied as a whole, in its turn";
  }

 private:
  enum class Doing : uint8_t { nothing, waits_for_work, works, waits_for_turn, waits_for_round, pushes };
  struct One {
    Doing doing = Doing::nothing;
    std::deque<Lease> entries;
    std::vector<Lease> computed;
    std::vector<Lease> further;  ///< reports that have time until the round
    int64_t current = 0;         ///< the piece of work that begins with its parameters
    StoreRound round;
  };
  static constexpr int64_t kSteps = 11;

  static CoordinatorOptions options(int64_t workers, int64_t backups) {
    CoordinatorOptions options = rounds_of(workers, backups);
    options.gather_seconds = 1;
    return options;
  }
  std::ptrdiff_t below(size_t bound) {
    return std::uniform_int_distribution<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(bound) - 1)(random_);
  }
  void join() { all_[table_.join("m")]; }
  void lose(uint32_t id) {
    if (all_[id].doing == Doing::pushes && below(2) == 0) push(all_[id]);  // before it reports
    lost_.insert(id);
    table_.registry.remove(id);
    all_.erase(id);
  }

  /// Those with the earliest work first.
  static void insert(One& one, const Lease& lease) {
    const auto order = [](const Lease& other) {
      return std::tuple(!other.applied, other.works.front(), other.part);
    };
    const auto place =
        std::ranges::find_if(one.entries, [&](const Lease& other) { return order(other) > order(lease); });
    one.entries.insert(place, lease);
  }

  void act(uint32_t id, One& one) {
    switch (one.doing) {
      case Doing::nothing:
        table_.registry.ask_work(id, table_.now);
        one.doing = Doing::waits_for_work;
        break;
      case Doing::waits_for_work:
        if (table_.has_work(id)) one.doing = Doing::works;
        break;
      case Doing::works: work(id, one); break;
      case Doing::waits_for_turn:
        if (const std::optional<Lease> lease = table_.further(id)) {
          insert(one, *lease);
        } else if (!table_.may_go_on(id)) {
          break;
        } else {
          one.current = one.entries.front().works.front();
          ASSERT_GE(applied_, one.entries.front().begin) << "it reads parameters with all earlier updates";
        }
        one.doing = Doing::works;
        break;
      case Doing::waits_for_round: take_round(id, one); break;
      case Doing::pushes: report(id, one); break;
    }
  }

  void ask_round(uint32_t id, One& one) {
    std::set<uint64_t> leases;
    for (const Lease& lease : one.computed) leases.insert(lease.id);
    table_.registry.ask_round(id, one.computed.front().works.front(), leases);
    one.doing = Doing::waits_for_round;
  }

  void work(uint32_t id, One& one) {
    if (one.entries.size() <= 1)
      if (const auto lease = table_.lease(id)) insert(one, *lease);
    if (!one.entries.empty() && one.entries.front().applied) {
      ASSERT_LT(one.entries.front().begin, applied_) << "the update was made";
      table_.done(id, one.entries.front());
      one.entries.pop_front();
      return;
    }
    const int64_t next = one.entries.empty() ? 0 : one.entries.front().works.front();
    if (!one.computed.empty() && one.computed.front().works.front() != next) {
      ask_round(id, one);
    } else if (next > 0 && next == one.current) {
      one.computed.push_back(one.entries.front());
      one.entries.pop_front();
    } else if (next > 0) {
      table_.registry.ask_pace(id, next);
      one.doing = Doing::waits_for_turn;
    } else {
      one.doing = Doing::nothing;
    }
  }

  void take_round(uint32_t id, One& one) {
    if (const auto round = table_.answer<StoreRound>(id)) {
      one.round = *round;
      one.doing = Doing::pushes;
      if (round->members.empty()) return;
      const int64_t step = one.computed.front().begin;
      if (step >= applied_) {  // otherwise the servers ignore it
        ASSERT_EQ(step, applied_) << "its turn";
      }
      if (round->members.front() == id) expect_all_parts(*round, step);
    } else if (const std::optional<Lease> lease = table_.further(id)) {
      one.further.push_back(*lease);
      if (lease->applied) return ask_round(id, one);
      take_further(one);
    }
  }

  static void take_further(One& one) {
    for (const Lease& lease : std::exchange(one.further, {})) insert(one, lease);
    one.doing = Doing::works;
  }

  /// The members of a round have each part of its batch once.
  void expect_all_parts(const StoreRound& round, int64_t step) {
    std::vector<int64_t> parts;
    if (std::ranges::any_of(round.members, [&](uint32_t member) { return lost_.contains(member); })) return;
    for (const uint32_t member : round.members)
      for (const Lease& lease : all_[member].computed)
        if (lease.begin == step) parts.push_back(lease.part);
    std::ranges::sort(parts);
    ASSERT_EQ(std::ssize(parts), parts_);
    for (int64_t part = 0; part < parts_; ++part) ASSERT_EQ(parts[static_cast<size_t>(part)], part);
  }

  /// Returns whether the round was applied, as far as it is known.
  std::optional<bool> push(const One& one) {
    Pushed& round = rounds_[one.round.number];
    const int64_t step = one.computed.front().begin;
    round.pushed += round.by.insert(&one).second ? 1 : 0;
    const bool complete = round.pushed == one.round.members.size();
    const bool missing =
        std::ranges::any_of(one.round.members, [&](uint32_t member) { return lost_.contains(member); });
    if (!round.applied && (complete || missing)) {
      round.applied = complete || step < applied_;
      if (complete && step == applied_) ++applied_;
    }
    return round.applied;
  }

  void report(uint32_t id, One& one) {
    std::optional<bool> applied = true;
    if (!one.round.members.empty()) applied = push(one);
    if (!applied) return;
    for (const Lease& lease : one.computed) {
      if (*applied) {
        table_.done(id, lease);
      } else {
        table_.registry.give_back(id, lease.id, lease.begin);
      }
    }
    if (*applied) one.current = one.round.members.empty() ? 0 : one.current + 1;
    one.computed.clear();
    take_further(one);
  }

  struct Pushed {
    std::set<const One*> by;
    size_t pushed = 0;
    std::optional<bool> applied;
  };

  std::mt19937 random_;
  Table table_;
  int64_t parts_;
  std::map<uint32_t, One> all_;
  std::set<uint32_t> lost_;
  std::map<int64_t, Pushed> rounds_;
  int64_t applied_ = 0;  ///< batches
};

void simulate(uint32_t seed, int64_t workers, int64_t backups, int64_t come, bool failures) {
  SCOPED_TRACE(fmt::format("seed {}, {} workers, {} backups, {} come", seed, workers, backups, come));
  Simulation(seed, workers, backups, come).run(failures);
}

TEST(MemberRegistry, EachBatchIsAppliedOnceAsAWholeWhoeverIsThere) {
  for (uint32_t seed = 0; seed < 60; ++seed)
    for (const int64_t workers : {1, 2, 3, 4})
      for (int64_t come = 1; come <= workers + 1; ++come) simulate(seed, workers, 0, come, false);
}

TEST(MemberRegistry, EachBatchIsAppliedOnceAsAWholeWhicheverMembersAreLost) {
  for (uint32_t seed = 0; seed < 500; ++seed)
    for (const int64_t workers : {1, 2, 3, 4}) simulate(seed, workers, 0, workers + 1, true);
}

TEST(MemberRegistry, WithBackupsEachBatchIsAppliedOnceAsAWhole) {
  for (uint32_t seed = 0; seed < 500; ++seed)
    for (const bool failures : {false, true}) {
      simulate(seed, 2, 2, 5, failures);
      simulate(seed, 2, 1, 3, failures);
      simulate(seed, 3, 1, 4, failures);
    }
}

}  // namespace
}  // namespace telar::test
