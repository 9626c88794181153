#include "telar/data/streams/lease_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "support/sentences.h"

namespace telar::test {
namespace {

void finish(LeaseBook& book, uint32_t member, const Lease& lease) {
  for (int64_t step = lease.begin; step < lease.end; ++step) EXPECT_TRUE(book.done(member, lease.id, step));
}

void expect_lease(const std::optional<Lease>& lease, int64_t part, int64_t begin, int64_t end) {
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(lease->part, part);
  EXPECT_EQ(lease->begin, begin);
  EXPECT_EQ(lease->end, end);
}

TEST(LeaseBook, GivesTheEarliestStepAndOfItThePreferredPartFirst) {
  LeaseBook book(3, 2, 10, 3, {.lease = 5, .work = 5});
  expect_lease(book.take(1, 1), 1, 2, 7);
  expect_lease(book.take(2, 0), 0, 2, 7);
  expect_lease(book.take(1, 1), 2, 2, 7);
  expect_lease(book.take(1, 1), 1, 7, 10);
  expect_lease(book.take(1, 1), 0, 7, 10);
  EXPECT_EQ(book.available(1, 1), 7);
  const Lease last = *book.take(1, 1);
  expect_lease(last, 2, 7, 10);
  EXPECT_EQ(last.works, (std::vector<int64_t>{2, 2, 2})) << "all parts of some steps are one piece of work";
  EXPECT_FALSE(book.available(1, 1).has_value());
  EXPECT_FALSE(book.take(1, 1).has_value());
  EXPECT_FALSE(book.finished());
  EXPECT_EQ(book.done_before(), 2);
}

TEST(LeaseBook, MembersHaveEqualSharesOfUnclaimedParts) {
  LeaseBook book(0, 0, 2, 4, {.lease = 1});
  const LeaseBook::Claims claimed{true, false, false, true};
  const Lease first = *book.take(1, 0, claimed);
  const Lease second = *book.take(1, 0, claimed);
  expect_lease(first, 0, 0, 1);
  expect_lease(second, 1, 0, 1);
  expect_lease(book.take(1, 0, claimed), 0, 1, 2);
  expect_lease(book.take(2, 3, claimed), 3, 0, 1);
  expect_lease(book.take(2, 3, claimed), 2, 0, 1);
  EXPECT_EQ(book.holders(1), (std::vector<std::vector<uint32_t>>{{1}, {1}, {2}, {2}}));
  EXPECT_TRUE(book.holds(1, 1, {first.id, second.id}));
  EXPECT_FALSE(book.holds(1, 1, {first.id}) || book.holds(2, 1, {first.id, second.id}));
  EXPECT_EQ(book.holders(2), (std::vector<std::vector<uint32_t>>{{1}, {}, {}, {}}));
}

TEST(LeaseBook, KnowsWhichPieceIsNextAndWhatIsAppliedOfIt) {
  LeaseBook book(0, 0, 6, 2, {.lease = 2, .work = 2}, 10);
  EXPECT_EQ(book.current_work(), 11);
  const Lease first = *book.take(1, 0, {true, true});
  const Lease other = *book.take(2, 1, {true, true});
  book.take(1, 0, {true, true});
  EXPECT_EQ(book.end_of(11), 2);
  EXPECT_EQ(book.end_of(12), 4);
  EXPECT_FALSE(book.end_of(13).has_value());
  EXPECT_FALSE(book.applied(11));
  EXPECT_TRUE(book.done(1, first.id, 0));
  EXPECT_TRUE(book.applied(11)) << "of a piece that is not applied, no step is reported";
  EXPECT_FALSE(book.applied(12));
  EXPECT_EQ(book.current_work(), 12) << "whether all parts of the first are reported or not";
  book.give_back_all(2);
  const Lease again = *book.take(3, 0, {true, true});
  EXPECT_TRUE(again.applied);
  EXPECT_EQ(again.works, other.works);
  EXPECT_TRUE(book.done(1, first.id, 1));
  finish(book, 3, again);
  EXPECT_EQ(book.current_work(), 12);
  book.give_back_all(1);
  EXPECT_FALSE(book.take(3, 0, {true, true})->applied);
}

TEST(LeaseBook, ACopyIsDoneByWhoeverIsFirst) {
  LeaseBook book(0, 0, 3, 2, {.lease = 1});
  const auto slow = [](uint32_t member) { return member == 2; };
  EXPECT_FALSE(book.copyable(3, slow)) << "nobody has begun";
  const Lease of_one = *book.take(1, 0, {true, true});
  const Lease of_two = *book.take(2, 1, {true, true});
  const std::optional<Lease> copy = book.copy(3, slow);
  expect_lease(copy, 1, 0, 1);
  EXPECT_EQ(copy->works, of_two.works);
  EXPECT_FALSE(book.copyable(4, slow)) << "one copy";
  EXPECT_TRUE(book.shares(2, 0) && book.shares(3, 0));
  EXPECT_FALSE(book.shares(1, 0));
  book.give_back(3, copy->id, 0);
  EXPECT_FALSE(book.available(4, -1, {true, true}) == 0) << "the other one still does it";
  const Lease second = *book.copy(3, slow);
  finish(book, 3, second);
  EXPECT_FALSE(book.done(2, of_two.id, 0));
  EXPECT_FALSE(book.holds_work(2));
  finish(book, 1, of_one);
  EXPECT_EQ(book.done_before(), 1);
}

TEST(LeaseBook, WhatIsDroppedIsNotGivenToOthers) {
  LeaseBook book(0, 0, 3, 1, {.lease = 2});
  const Lease lease = *book.take(1, 0);
  book.drop(1, lease.works[0]);
  EXPECT_FALSE(book.part_of(1, lease.id, 0).has_value());
  EXPECT_EQ(book.part_of(1, lease.id, 1), 0);
  EXPECT_EQ(book.take(2, 0)->begin, 2);
}

TEST(LeaseBook, LeasesOnlyStepsThatExist) {
  LeaseBook book(0, 2, 20, 2, {.lease = 4, .work = 4});
  book.exist_before(2);
  EXPECT_FALSE(book.available(1, 0).has_value());
  book.exist_before(5);
  expect_lease(book.take(1, 0), 0, 2, 5);
  EXPECT_FALSE(book.take(1, 0, {true, true}).has_value());
  EXPECT_EQ(book.begun_before(), 5);
  book.exist_before(9);
  const Lease other = *book.take(2, 1);
  expect_lease(other, 1, 2, 5);
  expect_lease(book.take(1, 0), 0, 5, 9);
  book.drain();
  book.exist_before(15);
  expect_lease(book.take(2, 1), 1, 5, 9);
  EXPECT_FALSE(book.available(2, 1).has_value()) << "what comes to exist after the drain is not begun";
}

TEST(LeaseBook, LeavesClaimedPartsToTheirMembers) {
  LeaseBook book(0, 0, 4, 3, {.lease = 4, .work = 4});
  const LeaseBook::Claims claimed{true, true, false};
  expect_lease(book.take(1, 0, claimed), 0, 0, 4);
  expect_lease(book.take(1, 0, claimed), 2, 0, 4);
  EXPECT_FALSE(book.available(1, 0, claimed).has_value());
  EXPECT_FALSE(book.take(1, 0, claimed).has_value());
  EXPECT_TRUE(book.available(1, 1, claimed).has_value());
  expect_lease(book.take(1, 0), 1, 0, 4);
}

TEST(LeaseBook, ReturnedWorkComesFirstInStepOrder) {
  LeaseBook book(0, 0, 20, 2, {.lease = 1});
  std::map<int64_t, Lease> first;
  std::map<int64_t, Lease> second;
  for (int64_t step = 0; step < 4; ++step) {
    first[step] = *book.take(1, 0, {true, true});
    second[step] = *book.take(2, 1, {true, true});
  }
  book.give_back(1, first[2].id, 2);
  book.give_back(2, second[1].id, 1);
  book.give_back(1, first[3].id, 3);
  expect_lease(book.take(3, 0), 1, 1, 2);
  expect_lease(book.take(3, 0, {true, true}), 0, 2, 3);
  expect_lease(book.take(3, 1), 0, 3, 4);
  expect_lease(book.take(3, 0), 0, 4, 5);
  EXPECT_TRUE(book.done(1, first[0].id, 0));
  EXPECT_FALSE(book.done(1, first[2].id, 2)) << "it was given back";
}

TEST(LeaseBook, APieceOfWorkIsGivenBackAndLeasedAsAWhole) {
  LeaseBook book(0, 0, 8, 1, {.lease = 3, .work = 3}, 40);
  const Lease first = *book.take(1, 0);
  EXPECT_EQ(first.works, (std::vector<int64_t>{41, 41, 41}));
  const Lease second = *book.take(2, 0);
  book.exist_before(7);
  EXPECT_EQ(book.take(2, 0)->works, (std::vector<int64_t>{43})) << "of the steps that exist";
  EXPECT_TRUE(book.done(1, first.id, 0));
  book.give_back(1, first.id, 1);
  book.give_back(1, first.id, 2);
  book.give_back_all(2);
  const Lease rest = *book.take(3, 0);
  expect_lease(rest, 0, 1, 3);
  EXPECT_TRUE(rest.applied) << "only reports are missing";
  EXPECT_EQ(rest.works, (std::vector<int64_t>{41, 41}));
  const Lease whole = *book.take(3, 0);
  expect_lease(whole, 0, 3, 6);
  EXPECT_FALSE(whole.applied);
  EXPECT_EQ(whole.works, (std::vector<int64_t>{42, 42, 42})) << "whole pieces";
  EXPECT_EQ(second.works, (std::vector<int64_t>{42, 42, 42}));
  EXPECT_EQ(book.works(), 43);
  expect_error([&] { book.done(3, rest.id, 2); }, {"batch 2", "before that of batch 1"});
}

TEST(LeaseBook, IgnoresReportsWithoutTheLease) {
  LeaseBook book(0, 0, 4, 1, {.lease = 4});
  const Lease lease = *book.take(7, 0);
  EXPECT_FALSE(book.done(8, lease.id, 0));
  EXPECT_FALSE(book.done(7, lease.id + 1, 0));
  EXPECT_FALSE(book.done(7, lease.id, 4));
  EXPECT_FALSE(book.done(7, lease.id, -1));
  book.give_back(8, lease.id, 0);
  EXPECT_TRUE(book.done(7, lease.id, 0));
  EXPECT_FALSE(book.done(7, lease.id, 0)) << "once is enough";
  EXPECT_EQ(book.part_of(7, lease.id, 1), 0);
  EXPECT_FALSE(book.part_of(7, lease.id, 0).has_value());

  LeaseBook next(1, 0, 4, 1, {.lease = 4});
  const Lease other = *next.take(7, 0);
  EXPECT_NE(other.id, lease.id) << "a late report from another epoch must match no lease";
}

TEST(LeaseBook, ALostMembersWorkIsGivenToOthers) {
  LeaseBook book(0, 0, 3, 1, {.lease = 3});
  const Lease lease = *book.take(1, 0);
  EXPECT_TRUE(book.done(1, lease.id, 1));
  EXPECT_TRUE(book.holds_work(1));
  EXPECT_EQ(book.give_back_all(1), 2);
  EXPECT_FALSE(book.holds_work(1));
  EXPECT_FALSE(book.done(1, lease.id, 2));
  const Lease before = *book.take(2, 0);
  finish(book, 2, before);
  EXPECT_EQ(book.done_before(), 2);
  EXPECT_FALSE(book.finished());
  finish(book, 2, *book.take(2, 0));
  EXPECT_TRUE(book.finished());
  EXPECT_FALSE(book.holds_work(2));
}

TEST(LeaseBook, DrainingEndsTheEpochAtAWholeBatch) {
  LeaseBook book(0, 0, 100, 2, {.lease = 4, .work = 4});
  const Lease lease = *book.take(1, 0);
  book.drain();
  EXPECT_FALSE(book.finished());
  expect_lease(book.take(2, 0), 1, 0, 4);
  EXPECT_FALSE(book.available(2, 0).has_value());
  finish(book, 1, lease);
  EXPECT_EQ(book.done_before(), 0);
  book.give_back_all(2);
  finish(book, 1, *book.take(1, 0));
  EXPECT_EQ(book.done_before(), 4);
  EXPECT_TRUE(book.finished());

  LeaseBook untouched(0, 5, 100, 2, {.lease = 4});
  untouched.drain();
  EXPECT_TRUE(untouched.finished());
  EXPECT_EQ(untouched.done_before(), 5);
}

TEST(LeaseBook, AnEpochWithoutStepsIsFinished) {
  EXPECT_TRUE(LeaseBook(0, 4, 4, 2, {.lease = 1}).finished());
}

TEST(LeaseBook, RefusesImpossibleEpochs) {
  expect_error([] { LeaseBook(0, 5, 4, 1, {.lease = 1}); }, {"5", "4", "are not possible"});
  expect_error([] { LeaseBook(0, 0, 4, 0, {.lease = 1}); }, {"0 parts"});
  expect_error([] { LeaseBook(0, 0, 4, 1, {.lease = 0}); }, {"0 at a time"});
  expect_error([] { LeaseBook(0, 0, 4, 1, {.lease = 4, .work = 3}); }, {"pieces of 3"});
}

/// Members that join, take leases, finish steps, give work back and leave in a random order; and a plain
/// count of the parts that were done.
class RandomMembers {
 public:
  explicit RandomMembers(uint32_t seed)
      : random_(seed),
        parts_(static_cast<int64_t>(below(4)) + 1),
        first_(static_cast<int64_t>(below(5))),
        steps_(first_ + static_cast<int64_t>(below(40))),
        work_(static_cast<int64_t>(below(3)) + 1),
        book_(0, first_, steps_, parts_,
              {.lease = work_ * (static_cast<int64_t>(below(4)) + 1), .work = work_}) {}

  void run(bool failures) {
    for (int turn = 0; !book_.finished() && turn < 100'000; ++turn) {
      const auto member = static_cast<uint32_t>(below(5)) + 1;
      const size_t what = below(failures ? 20 : 10);
      if (what < 4) {
        take(member);
      } else if (what < 10) {
        end_one(member, true);
      } else if (what < 12) {
        end_one(member, false);
      } else if (what == 12) {
        book_.give_back_all(member);
        held_.erase(member);
      }
      check();
    }
    EXPECT_TRUE(book_.finished()) << "the epoch must end";
    EXPECT_EQ(book_.done_before(), steps_);
    EXPECT_FALSE(book_.available(1, 0).has_value());
    for (int64_t step = first_; step < steps_; ++step)
      for (int64_t part = 0; part < parts_; ++part)
        EXPECT_EQ((done_[{step, part}]), 1) << step << " " << part;
    EXPECT_EQ(done_.size(), static_cast<size_t>((steps_ - first_) * parts_));
    EXPECT_TRUE(failures || given_ == done_.size()) << "without failures no part is given out twice";
  }

 private:
  struct One {
    uint64_t lease;
    int64_t step;
    int64_t part;
    int64_t work;
  };

  size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }

  void take(uint32_t member) {
    const std::optional<int64_t> first = book_.available(member, member % parts_);
    const auto lease = book_.take(member, member % parts_);
    EXPECT_EQ(lease.has_value(), first.has_value());
    if (!lease) return;
    EXPECT_EQ(lease->begin, first);
    ASSERT_EQ(std::ssize(lease->works), lease->end - lease->begin);
    std::map<int64_t, std::set<int64_t>> works;
    for (int64_t step = lease->begin; step < lease->end; ++step, ++given_) {
      const int64_t work = lease->works[static_cast<size_t>(step - lease->begin)];
      held_[member].push_back({lease->id, step, lease->part, work});
      works[work].insert(step);
    }
    for (const auto& [work, steps] : works) {
      EXPECT_LE(std::ssize(steps), work_);
      EXPECT_EQ(undone_.try_emplace({work, lease->part}, steps).first->second, steps)
          << "of a piece, a part is leased as a whole";
    }
  }

  void end_one(uint32_t member, bool done) {
    auto& held = held_[member];
    EXPECT_EQ(book_.holds_work(member), !held.empty());
    if (held.empty()) return;
    auto one = held.begin() + static_cast<std::ptrdiff_t>(below(held.size()));
    const auto of_one = [work = one->work, part = one->part](const One& other) {
      return other.work == work && other.part == part;
    };
    one = std::ranges::find_if(held, of_one);  // the first step of its piece
    if (done) {
      EXPECT_TRUE(book_.done(member, one->lease, one->step));
      ++done_[{one->step, one->part}];
      undone_[{one->work, one->part}].erase(one->step);
      held.erase(one);
    } else {
      book_.give_back(member, one->lease, one->step);
      std::erase_if(held, of_one);
    }
  }

  void check() {
    int64_t all_done = first_;
    const auto whole = [&](int64_t step) {
      for (int64_t part = 0; part < parts_; ++part)
        if (!done_.contains({step, part})) return false;
      return true;
    };
    while (all_done < steps_ && whole(all_done)) ++all_done;
    ASSERT_EQ(book_.done_before(), all_done);
    ASSERT_EQ(book_.finished(), all_done == steps_);
  }

  std::mt19937 random_;
  int64_t parts_;
  int64_t first_;
  int64_t steps_;
  int64_t work_;
  LeaseBook book_;
  std::map<uint32_t, std::vector<One>> held_;
  std::map<std::pair<int64_t, int64_t>, int> done_;
  /// Steps of each piece of work and part that was leased.
  std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> undone_;
  size_t given_ = 0;
};

TEST(LeaseBook, WithoutFailuresEachPartOfEachStepIsGivenExactlyOnce) {
  for (uint32_t seed = 0; seed < 100; ++seed) RandomMembers(seed).run(false);
}

TEST(LeaseBook, EachPartIsDoneWhateverMembersDo) {
  for (uint32_t seed = 0; seed < 100; ++seed) RandomMembers(seed).run(true);
}

}  // namespace
}  // namespace telar::test
