#include "telar/comm/members/coordinator.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "telar/comm/members/protocol.h"
#include "telar/comm/members/roll.h"
#include "telar/comm/members/said.h"
#include "telar/comm/members/visit.h"

namespace telar {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr size_t kMostVisits = 4096;    // at once
constexpr size_t kMostUntold = 10'000;  // messages that wait for one who does not listen
constexpr size_t kLongestName = 200;

/// For the log: no line ends, no control characters, not endless.
std::string printable(std::string text) {
  if (text.size() > kLongestName) text.resize(kLongestName);
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

/// "10.0.0.7" of "ipv4:10.0.0.7:40112", "fd00::7" of "ipv6:[fd00::7]:40112" (the brackets as %5B, %5D); of this host itself: empty.
std::string other_host(const std::string& peer) {
  const size_t scheme = peer.find(':');
  const size_t port = peer.rfind(':');
  if (scheme == port) return {};
  std::string host = peer.substr(scheme + 1, port - scheme - 1);
  if (host.starts_with("%5B") && host.ends_with("%5D")) host = host.substr(3, host.size() - 6);
  return Address{.host = host, .port = 0}.loopback() ? "" : host;
}

members::Told told(const Roll::Reply& reply) {
  members::Told told;
  if (std::holds_alternative<Roll::WorkThere>(reply)) {
    told.mutable_work_there();
  } else if (std::holds_alternative<Roll::MayGoOn>(reply)) {
    told.mutable_go_on();
  } else if (const auto* lease = std::get_if<std::optional<Lease>>(&reply)) {
    members::Lease& message = *told.mutable_lease();
    if (!*lease) return told;
    message.set_id((*lease)->id);
    message.set_epoch((*lease)->epoch);
    message.set_begin((*lease)->begin);
    message.set_end((*lease)->end);
    message.set_part((*lease)->part);
  } else if (const auto* round = std::get_if<std::optional<StoreRound>>(&reply)) {
    members::Round& message = *told.mutable_round();
    if (!*round) return told;
    message.set_number((*round)->number);
    message.mutable_members()->Assign((*round)->members.begin(), (*round)->members.end());
  }
  return told;
}

}  // namespace

/// One thread of its own takes all events of the network from one queue, under the lock, and asks the roll what follows.
class Coordinator::Impl {
 public:
  explicit Impl(CoordinatorOptions options);
  ~Impl();

  const std::string& address() const { return address_; }

  void begin_epoch(uint32_t epoch, int64_t first, int64_t steps);
  void drain();
  std::vector<StepDone> wait(double seconds);
  /// Also told of all steps.
  bool epoch_finished() const;
  int64_t steps_done() const;
  std::vector<MemberInfo> members() const;

 private:
  void run();
  /// Wakes the thread, to send what the roll answers.
  void poke();
  void next_visit();
  void handle(const Visit::Tag& tag, bool ok);
  void arrived(Visit& visit);
  void heard(Visit& visit);
  void hello(Visit& visit, const members::Hello& hello);
  void said(Visit& visit, const members::Said& said);
  /// The member is gone, or will be: `how` is "left" or "is lost: …".
  void gone(Visit& visit, const std::string& how, const grpc::Status& status);
  void refuse(Visit& visit, const grpc::Status& status);
  void tick();
  void deliver();
  bool anybody() const;

  const CoordinatorOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Roll roll_;
  std::vector<StepDone> complete_;
  std::vector<std::string> news_;
  std::optional<std::string> failure_;
  bool over_ = false;
  bool stopping_ = false;
  bool poked_ = false;
  Clock::time_point last_tick_ = Clock::now();
  std::optional<Clock::time_point> refused_;

  members::Members::AsyncService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  grpc::Alarm alarm_;
  std::list<Visit> visits_;
  std::thread thread_;
};

Coordinator::Impl::Impl(CoordinatorOptions options) : options_(std::move(options)), roll_(options_) {
  SecureServerBuilder builder(options_.listen, options_.security, kMaxMemberMessageBytes);
  builder.grpc().RegisterService(&service_);
  queue_ = builder.grpc().AddCompletionQueue();
  server_ = builder.start();
  address_ = builder.address();
  next_visit();
  thread_ = std::thread([this] { run(); });
}

Coordinator::Impl::~Impl() {
  {
    std::unique_lock lock(mutex_);
    over_ = true;
    members::Told end;
    end.mutable_over();
    for (Visit& visit : visits_)
      if (visit.member != 0) visit.tell(end);
    poke();
    changed_.wait_for(lock, kMemberGoodbye, [this] { return !anybody(); });
    stopping_ = true;
    for (Visit& visit : visits_) visit.freeze();
  }
  server_->Shutdown(std::chrono::system_clock::now());
  queue_->Shutdown();
  thread_.join();
}

bool Coordinator::Impl::anybody() const {
  return std::ranges::any_of(visits_, [](const Visit& visit) { return visit.here(); });
}

void Coordinator::Impl::poke() {
  if (poked_ || stopping_) return;
  poked_ = true;
  alarm_.Set(queue_.get(), std::chrono::system_clock::now(), nullptr);
}

void Coordinator::Impl::next_visit() {
  if (!stopping_) visits_.emplace_back(service_, *queue_);
}

void Coordinator::Impl::run() {
  for (;;) {
    void* tag = nullptr;
    bool ok = false;
    const auto next = queue_->AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kMemberTick);
    std::vector<std::string> news;
    {
      const std::lock_guard lock(mutex_);
      if (next == grpc::CompletionQueue::SHUTDOWN) return;
      if (next == grpc::CompletionQueue::GOT_EVENT) {
        if (tag == nullptr) {
          poked_ = false;
        } else {
          handle(*static_cast<const Visit::Tag*>(tag), ok);
        }
      }
      if (Clock::now() - last_tick_ >= kMemberTick) tick();
      deliver();
      news.swap(news_);
    }
    if (options_.say)
      for (const std::string& sentence : news) options_.say(sentence);
  }
}

void Coordinator::Impl::handle(const Visit::Tag& tag, bool ok) {
  Visit& visit = *tag.visit;
  visit.ended(tag.event, ok);
  if (tag.event == Visit::Event::arrived && ok) arrived(visit);
  if (tag.event == Visit::Event::read) {
    if (ok) {
      heard(visit);
    } else if (visit.member == 0 && !visit.finishing_since() && !over_) {
      refuse(visit, {grpc::StatusCode::INVALID_ARGUMENT,
                     fmt::format("it ended before it said who it is, or said more than {} MB at once",
                                 kMaxMemberMessageBytes >> 20)});
    } else {
      gone(visit, over_ ? "left" : "is lost: its connection broke", grpc::Status::OK);
    }
  }
  if (visit.idle() && (visit.over() || stopping_)) {
    visits_.remove_if([&](const Visit& other) { return &other == &visit; });
    changed_.notify_all();
  }
}

void Coordinator::Impl::arrived(Visit& visit) {
  next_visit();
  visit.heard = Clock::now();
  if (visits_.size() > kMostVisits)
    return refuse(visit, {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many are connected"});
  if (over_) return refuse(visit, {grpc::StatusCode::UNAVAILABLE, "the training is over"});
  const grpc::Status status = check_caller(visit.context(), options_.security);
  if (!status.ok()) return refuse(visit, status);
  visit.read();
}

void Coordinator::Impl::refuse(Visit& visit, const grpc::Status& status) {
  const Clock::time_point now = Clock::now();
  visit.finish(status, now);
  // One who tries again and again must not fill the log.
  if (refused_ && now - *refused_ < Seconds(1)) return;
  refused_ = now;
  news_.push_back(
      fmt::format("{} was refused: {}", visit.context().peer(), printable(status.error_message())));
}

void Coordinator::Impl::heard(Visit& visit) {
  visit.heard = Clock::now();
  if (visit.finishing_since()) return;
  try {
    if (visit.member == 0) {
      if (!visit.said().has_hello())
        return refuse(visit, {grpc::StatusCode::INVALID_ARGUMENT, "it did not say who it is"});
      hello(visit, visit.said().hello());
    } else {
      said(visit, visit.said());
    }
  } catch (const Error& error) {
    gone(visit, fmt::format("is lost: {}", error.what()), {grpc::StatusCode::INVALID_ARGUMENT, error.what()});
  }
  visit.read();
}

void Coordinator::Impl::hello(Visit& visit, const members::Hello& hello) {
  if (!hello.job().empty() && hello.job() != options_.job)
    return refuse(visit,
                  {grpc::StatusCode::FAILED_PRECONDITION,
                   fmt::format("the job here is {}, no longer {}", options_.job, printable(hello.job()))});
  const std::string peer = visit.context().peer();
  std::string name = hello.name().empty() ? peer : hello.name();
  if (const std::string host = other_host(peer); !host.empty()) name += fmt::format(" ({})", host);
  visit.member = roll_.join(printable(name));
  members::Told told;
  members::Welcome& welcome = *told.mutable_welcome();
  welcome.set_id(visit.member);
  welcome.set_job(options_.job);
  welcome.set_description(options_.description);
  for (const std::string& server : options_.servers) welcome.add_servers(server);
  visit.tell(std::move(told));
}

void Coordinator::Impl::said(Visit& visit, const members::Said& said) {
  if (carry_out(roll_, visit.member, visit.heard, said)) return;
  if (said.has_leave()) return gone(visit, "left", grpc::Status::OK);
  if (said.has_hello()) throw user_error("it said twice who it is");
  if (said.what_case() == members::Said::kFailure) {
    if (!failure_) failure_ = fmt::format("{}: {}", roll_.name(visit.member), said.failure());
    return changed_.notify_all();
  }
  members::Told alive;
  alive.mutable_alive();
  visit.tell(std::move(alive));
  if (visit.untold() > kMostUntold)
    gone(visit, "is lost: it does not listen", {grpc::StatusCode::ABORTED, "it does not listen"});
}

void Coordinator::Impl::gone(Visit& visit, const std::string& how, const grpc::Status& status) {
  if (visit.member != 0) {
    news_.push_back(fmt::format("{} {}", roll_.name(visit.member), how));
    roll_.remove(std::exchange(visit.member, 0));
  }
  visit.finish(status, Clock::now());
}

void Coordinator::Impl::tick() {
  const Clock::time_point now = Clock::now();
  const auto since = now - last_tick_;
  last_tick_ = now;
  for (Visit& visit : visits_) {
    if (!visit.here()) continue;
    // Who was stopped itself (SIGSTOP, a suspended machine) has heard nobody, and blames nobody.
    if (since > kMemberStopped) visit.heard += since;
    if (visit.finishing_since()) {
      if (now - *visit.finishing_since() > kMemberGoodbye) visit.cancel();
    } else if (Seconds(now - visit.heard).count() > options_.patience_seconds) {
      const std::string silent = fmt::format("silent for {:.3g} seconds", options_.patience_seconds);
      if (visit.member == 0) {
        refuse(visit, {grpc::StatusCode::DEADLINE_EXCEEDED, "it said nothing"});
      } else {
        gone(visit, "is lost: " + silent, {grpc::StatusCode::ABORTED, silent});
      }
    }
  }
  roll_.tick(now);
}

void Coordinator::Impl::deliver() {
  for (const Roll::Answer& answer : roll_.take_answers()) {
    const auto visit = std::ranges::find(visits_, answer.member, &Visit::member);
    if (visit != visits_.end()) visit->tell(told(answer.reply));
  }
  std::vector<StepDone> steps = roll_.take_steps();
  if (!steps.empty() || roll_.epoch_finished()) changed_.notify_all();
  std::ranges::move(steps, std::back_inserter(complete_));
  std::ranges::move(roll_.take_news(), std::back_inserter(news_));
}

std::vector<StepDone> Coordinator::Impl::wait(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, Seconds(seconds),
                    [this] { return failure_ || !complete_.empty() || roll_.epoch_finished(); });
  if (failure_) throw run_error("{}", *failure_);
  return std::exchange(complete_, {});
}

void Coordinator::Impl::begin_epoch(uint32_t epoch, int64_t first, int64_t steps) {
  const std::lock_guard lock(mutex_);
  roll_.begin_epoch(epoch, first, steps);
  poke();
}

void Coordinator::Impl::drain() {
  const std::lock_guard lock(mutex_);
  roll_.drain();
  poke();
}

bool Coordinator::Impl::epoch_finished() const {
  const std::lock_guard lock(mutex_);
  return roll_.epoch_finished() && complete_.empty();
}

int64_t Coordinator::Impl::steps_done() const {
  const std::lock_guard lock(mutex_);
  return roll_.steps_done();
}

std::vector<MemberInfo> Coordinator::Impl::members() const {
  const std::lock_guard lock(mutex_);
  return roll_.members();
}

Coordinator::Coordinator(CoordinatorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Coordinator::~Coordinator() = default;

std::string Coordinator::address() const { return impl_->address(); }
void Coordinator::begin_epoch(uint32_t epoch, int64_t first, int64_t steps) {
  impl_->begin_epoch(epoch, first, steps);
}
void Coordinator::drain() { impl_->drain(); }
bool Coordinator::epoch_finished() const { return impl_->epoch_finished(); }
int64_t Coordinator::steps_done() const { return impl_->steps_done(); }
std::vector<StepDone> Coordinator::wait(double seconds) { return impl_->wait(seconds); }
std::vector<MemberInfo> Coordinator::members() const { return impl_->members(); }

}  // namespace telar
