#include "telar/comm/members/local_coordinator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "telar/comm/members/member_registry.h"
#include "telar/core/error.h"

namespace telar {

/// What the members and the coordinator's thread share.
class LocalCoordinator::Shared {
 public:
  explicit Shared(const CoordinatorOptions& options) : registry_(options) {}

  /// Makes a change to the registry and passes on what follows from it.
  template <typename Change>
  auto change(const Change& make) {
    const std::lock_guard lock(mutex_);
    const Deliver deliver{*this};
    return make(registry_);
  }

  /// Asks a question and waits for its answer; none when the training is over.
  template <typename Ask>
  std::optional<MemberRegistry::AnswerValue> answer_to(uint32_t id, const Ask& ask) {
    std::unique_lock lock(mutex_);
    if (over_) return std::nullopt;
    answers_.erase(id);
    ask(registry_);
    deliver();
    changed_.wait(lock, [&] { return over_ || answers_.contains(id); });
    const auto answer = answers_.find(id);
    if (answer == answers_.end()) return std::nullopt;
    return std::move(answers_.extract(answer).mapped());
  }

  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

  void fail(uint32_t id, const std::string& sentence) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = fmt::format("{}: {}", registry_.name(id), sentence);
    changed_.notify_all();
  }

  std::vector<StepDone> wait(double seconds) {
    std::unique_lock lock(mutex_);
    registry_.tick(std::chrono::steady_clock::now());
    deliver();
    changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [this] { return failure_ || !complete_.empty() || registry_.epoch_finished(); });
    if (failure_) throw run_error("{}", *failure_);
    return std::exchange(complete_, {});
  }

  bool epoch_finished() const {
    const std::lock_guard lock(mutex_);
    return registry_.epoch_finished() && complete_.empty();
  }

  int64_t steps_done() const {
    const std::lock_guard lock(mutex_);
    return registry_.steps_done();
  }

 private:
  struct Deliver {
    Shared& shared;
    ~Deliver() { shared.deliver(); }
  };

  void deliver() {
    for (MemberRegistry::Answer& answer : registry_.take_answers())
      answers_.insert_or_assign(answer.member, std::move(answer.value));
    std::ranges::move(registry_.take_steps(), std::back_inserter(complete_));
    registry_.take_news();
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  MemberRegistry registry_;
  std::map<uint32_t, MemberRegistry::AnswerValue> answers_;  ///< that members have not taken yet
  std::vector<StepDone> complete_;
  std::optional<std::string> failure_;
  bool over_ = false;
};

class LocalCoordinator::Member final : public WorkSource {
 public:
  Member(std::shared_ptr<Shared> shared, const std::string& name)
      : shared_(std::move(shared)),
        id_(shared_->change([&](MemberRegistry& registry) { return registry.join(name); })) {}
  ~Member() override {
    shared_->change([this](MemberRegistry& registry) { return registry.remove(id_); });
  }

  uint32_t id() const override { return id_; }
  bool lost() const override { return false; }

  bool wait_for_work() override {
    const auto answer = shared_->answer_to(
        id_, [this](MemberRegistry& registry) { registry.ask_work(id_, std::chrono::steady_clock::now()); });
    return answer && std::holds_alternative<MemberRegistry::WorkThere>(*answer);
  }
  std::optional<Lease> lease() override {
    return lease_in(shared_->answer_to(id_, [this](MemberRegistry& registry) { registry.ask_lease(id_); }));
  }
  std::optional<RoundAnswer> next_round(int64_t work, const std::set<uint64_t>& leases) override {
    const auto answer =
        shared_->answer_to(id_, [&](MemberRegistry& registry) { registry.ask_round(id_, work, leases); });
    if (const std::optional<Lease> lease = lease_in(answer)) return *lease;
    if (!answer) return std::nullopt;
    return std::get<StoreRound>(*answer);
  }
  std::optional<Lease> wait_for_turn(int64_t work) override {
    return lease_in(shared_->answer_to(id_, [&](MemberRegistry& registry) { registry.ask_pace(id_, work); }));
  }
  void done(const PartDone& part) override {
    shared_->change([&](MemberRegistry& registry) { registry.done(id_, part); });
  }
  void give_back(uint64_t lease, int64_t step) override {
    shared_->change([&](MemberRegistry& registry) { registry.give_back(id_, lease, step); });
  }
  void fail_all(const std::string& sentence) override { shared_->fail(id_, sentence); }

 private:
  static std::optional<Lease> lease_in(const std::optional<MemberRegistry::AnswerValue>& answer) {
    const auto* lease = answer ? std::get_if<std::optional<Lease>>(&*answer) : nullptr;
    return lease == nullptr ? std::nullopt : *lease;
  }

  std::shared_ptr<Shared> shared_;
  uint32_t id_;
};

LocalCoordinator::LocalCoordinator(const CoordinatorOptions& options)
    : shared_(std::make_shared<Shared>(options)) {}
LocalCoordinator::~LocalCoordinator() { shared_->end(); }

std::unique_ptr<WorkSource> LocalCoordinator::join(const std::string& name) {
  return std::make_unique<Member>(shared_, name);
}

void LocalCoordinator::begin_epoch(uint32_t epoch, int64_t first, int64_t steps) {
  shared_->change([&](MemberRegistry& registry) { registry.begin_epoch(epoch, first, steps); });
}
void LocalCoordinator::drain() {
  shared_->change([](MemberRegistry& registry) { registry.drain(); });
}
bool LocalCoordinator::epoch_finished() const { return shared_->epoch_finished(); }
int64_t LocalCoordinator::steps_done() const { return shared_->steps_done(); }
std::vector<StepDone> LocalCoordinator::wait(double seconds) { return shared_->wait(seconds); }

}  // namespace telar
