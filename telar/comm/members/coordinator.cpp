#include "telar/comm/members/coordinator.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "telar/comm/members/answers.h"
#include "telar/comm/members/connection.h"
#include "telar/comm/members/member_registry.h"
#include "telar/comm/members/protocol.h"
#include "telar/comm/members/requests.h"
#include "telar/comm/printable.h"

namespace telar {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr size_t kMaxConnections = 4096;  // at the same time
constexpr size_t kMaxUnsent = 10'000;     // messages queued for a peer that does not read
constexpr size_t kLongestFailure = 4000;

/// The host of a gRPC peer: "10.0.0.7" for "ipv4:10.0.0.7:40112", "fd00::7" for "ipv6:[fd00::7]:40112" (with
/// brackets as %5B, %5D). Empty for this host.
std::string other_host(const std::string& peer) {
  const size_t scheme = peer.find(':');
  const size_t port = peer.rfind(':');
  if (scheme == port) return {};
  std::string host = peer.substr(scheme + 1, port - scheme - 1);
  if (host.starts_with("%5B") && host.ends_with("%5D")) host = host.substr(3, host.size() - 6);
  return Address{.host = host, .port = 0}.loopback() ? "" : host;
}

}  // namespace

/// A separate thread takes all network events from one queue, under the lock, and asks the registry for the
/// consequences.
class Coordinator::Impl {
 public:
  explicit Impl(CoordinatorOptions options);
  ~Impl();

  const std::string& address() const { return address_; }

  void begin_epoch(uint32_t epoch, int64_t first, int64_t steps, const std::string& place);
  int64_t extend(const std::vector<std::string>& places);
  void resize(int64_t workers, bool spares_leave);
  void move(const std::vector<StoreHead>& heads);
  void drain();
  void abandon();
  std::vector<StepDone> wait(double seconds);
  /// Also requires that wait() has returned all steps.
  bool epoch_finished() const;
  int64_t steps_done() const;
  std::vector<MemberInfo> members() const;
  MemberLosses losses() const;

 private:
  void run();
  /// Wakes the thread.
  void poke();
  void accept_next();
  void handle(const Connection::Tag& tag, bool ok);
  void arrived(Connection& connection);
  void heard(Connection& connection);
  void hello(Connection& connection, const members::Hello& hello);
  void server_joins(Connection& connection, const std::string& address);
  void handle_request(Connection& connection, const members::Request& request);
  /// Removes a member that has left or is lost: `how` is "left" or "is lost: …". Returns the number of parts
  /// that it leaves to others.
  int64_t gone(Connection& connection, const std::string& how, const grpc::Status& status);
  void lost(Connection& connection, const std::string& why, const grpc::Status& status);
  void refuse(Connection& connection, const grpc::Status& status);
  void tick();
  /// Sends the registry's answers. Call it after each change, because members that it has dismissed are not
  /// known to it any more.
  void deliver();
  /// The same for the training's thread; the network's thread passes on the news.
  void deliver_from_outside();
  void say_over(std::unique_lock<std::mutex>& lock);
  bool anybody() const;

  CoordinatorOptions options_;  ///< only move() changes them
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  MemberRegistry registry_;
  std::vector<StepDone> complete_;
  std::vector<std::string> news_;
  std::optional<std::string> failure_;
  MemberLosses losses_;
  bool over_ = false;
  bool abandoned_ = false;
  bool stopping_ = false;
  bool poked_ = false;
  Clock::time_point last_tick_ = Clock::now();
  std::optional<Clock::time_point> refused_;

  members::Members::AsyncService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<SecureServer> server_;
  std::string address_;
  grpc::Alarm alarm_;
  std::list<Connection> connections_;
  std::thread thread_;
};

Coordinator::Impl::Impl(CoordinatorOptions options) : options_(std::move(options)), registry_(options_) {
  SecureServerBuilder builder(options_.listen, options_.security, kMaxMemberMessageBytes);
  builder.grpc().RegisterService(&service_);
  queue_ = builder.grpc().AddCompletionQueue();
  server_ = builder.start(options_.say);
  address_ = builder.address();
  accept_next();
  thread_ = std::thread([this] { run(); });
}

Coordinator::Impl::~Impl() {
  {
    std::unique_lock lock(mutex_);
    if (!abandoned_) say_over(lock);
    stopping_ = true;
    for (Connection& connection : connections_) connection.freeze();
  }
  server_->shutdown();
  queue_->Shutdown();
  thread_.join();
}

void Coordinator::Impl::say_over(std::unique_lock<std::mutex>& lock) {
  over_ = true;
  members::Reply end;
  end.mutable_over();
  for (Connection& connection : connections_)
    if (connection.member != 0) connection.send(end);
  poke();
  changed_.wait_for(lock, kMemberGoodbye, [this] { return !anybody(); });
}

bool Coordinator::Impl::anybody() const {
  return std::ranges::any_of(connections_,
                             [](const Connection& connection) { return connection.connected(); });
}

void Coordinator::Impl::poke() {
  if (poked_ || stopping_) return;
  poked_ = true;
  alarm_.Set(queue_.get(), std::chrono::system_clock::now(), nullptr);
}

void Coordinator::Impl::accept_next() {
  if (!stopping_) connections_.emplace_back(service_, *queue_);
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
          handle(*static_cast<const Connection::Tag*>(tag), ok);
        }
      }
      deliver();
      if (Clock::now() - last_tick_ >= kMemberTick) {
        tick();
        deliver();
      }
      news.swap(news_);
    }
    if (options_.say)
      for (const std::string& sentence : news) options_.say(sentence);
  }
}

void Coordinator::Impl::handle(const Connection::Tag& tag, bool ok) {
  Connection& connection = *tag.connection;
  connection.ended(tag.event, ok);
  if (tag.event == Connection::Event::arrived && ok) arrived(connection);
  if (tag.event == Connection::Event::read) {
    if (ok) {
      heard(connection);
    } else if (connection.member == 0 && !connection.finishing_since() && !over_) {
      refuse(connection, {grpc::StatusCode::INVALID_ARGUMENT,
                          fmt::format("it ended before its hello, or sent more than {} MB at once",
                                      kMaxMemberMessageBytes >> 20)});
    } else if (over_) {
      gone(connection, "left", grpc::Status::OK);
    } else {
      lost(connection, "its connection broke", grpc::Status::OK);
    }
  }
  if (connection.idle() && (connection.over() || stopping_)) {
    connections_.remove_if([&](const Connection& other) { return &other == &connection; });
    changed_.notify_all();
  }
}

void Coordinator::Impl::arrived(Connection& connection) {
  accept_next();
  connection.heard = Clock::now();
  if (connections_.size() > kMaxConnections)
    return refuse(connection, {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many connections"});
  if (over_) return refuse(connection, {grpc::StatusCode::UNAVAILABLE, "the training is over"});
  const grpc::Status status = check_caller(connection.context(), options_.security);
  if (!status.ok()) return refuse(connection, status);
  connection.read();
}

void Coordinator::Impl::refuse(Connection& connection, const grpc::Status& status) {
  const Clock::time_point now = Clock::now();
  connection.finish(status, now);
  // A peer that retries again and again must not fill the log.
  if (refused_ && now - *refused_ < Seconds(1)) return;
  refused_ = now;
  news_.push_back(
      fmt::format("{} was refused: {}", connection.context().peer(), printable(status.error_message())));
}

void Coordinator::Impl::heard(Connection& connection) {
  connection.heard = Clock::now();
  if (connection.finishing_since()) return;
  try {
    if (connection.member == 0) {
      if (!connection.request().has_hello())
        return refuse(connection, {grpc::StatusCode::INVALID_ARGUMENT, "its first message was not a hello"});
      hello(connection, connection.request().hello());
    } else {
      handle_request(connection, connection.request());
    }
  } catch (const Error& error) {
    lost(connection, error.what(), {grpc::StatusCode::INVALID_ARGUMENT, error.what()});
  }
  connection.read();
}

void Coordinator::Impl::server_joins(Connection& connection, const std::string& address) {
  try {
    Address::parse(address);
    if (!options_.server_joins)
      throw user_error(
          "no parameter server can join, because those of this run have no copies (strategy.server_replicas)");
    options_.server_joins(address);
    connection.finish(grpc::Status::OK, Clock::now());
  } catch (const Error& error) {
    const bool for_good = error.kind() == Error::Kind::user;
    refuse(connection, {for_good ? grpc::StatusCode::FAILED_PRECONDITION : grpc::StatusCode::UNAVAILABLE,
                        printable(error.what(), kLongestFailure)});
  }
}

void Coordinator::Impl::hello(Connection& connection, const members::Hello& hello) {
  if (!hello.server().empty()) return server_joins(connection, hello.server());
  if (!hello.job().empty() && hello.job() != options_.job)
    return refuse(connection,
                  {grpc::StatusCode::FAILED_PRECONDITION,
                   fmt::format("the job here is {}, no longer {}", options_.job, printable(hello.job()))});
  const std::string peer = connection.context().peer();
  std::string name = hello.name().empty() ? peer : hello.name();
  if (const std::string host = other_host(peer); !host.empty()) name += fmt::format(" ({})", host);
  connection.member = registry_.join(printable(name));
  members::Reply reply;
  members::Welcome& welcome = *reply.mutable_welcome();
  welcome.set_id(connection.member);
  welcome.set_job(options_.job);
  welcome.set_description(options_.description);
  for (const std::string& server : options_.servers) welcome.add_servers(server);
  for (const uint64_t tenure : options_.tenures) welcome.add_tenures(tenure);
  for (const int64_t generation : options_.generations) welcome.add_generations(generation);
  for (const std::string& copy : options_.copies) welcome.add_copies(copy);
  connection.send(std::move(reply));
}

void Coordinator::Impl::handle_request(Connection& connection, const members::Request& request) {
  if (carry_out(registry_, connection.member, connection.heard, request)) return;
  if (request.has_leave()) {
    gone(connection, "left", grpc::Status::OK);
    return;
  }
  if (request.has_hello()) throw user_error("it sent a second hello");
  if (request.what_case() == members::Request::kFailure) {
    if (!failure_)
      failure_ = fmt::format("{}: {}", registry_.name(connection.member),
                             printable(request.failure(), kLongestFailure));
    return changed_.notify_all();
  }
  members::Reply alive;
  alive.mutable_alive();
  connection.send(std::move(alive));
  if (connection.unsent() > kMaxUnsent)
    lost(connection, "it does not read its messages",
         {grpc::StatusCode::ABORTED, "it does not read its messages"});
}

int64_t Coordinator::Impl::gone(Connection& connection, const std::string& how, const grpc::Status& status) {
  int64_t parts = 0;
  if (connection.member != 0) {
    news_.push_back(fmt::format("{} {}", registry_.name(connection.member), how));
    parts = registry_.remove(std::exchange(connection.member, 0));
  }
  connection.finish(status, Clock::now());
  return parts;
}

void Coordinator::Impl::lost(Connection& connection, const std::string& why, const grpc::Status& status) {
  if (connection.member != 0) ++losses_.members;
  losses_.parts += gone(connection, "is lost: " + why, status);
}

void Coordinator::Impl::tick() {
  const Clock::time_point now = Clock::now();
  const auto since = now - last_tick_;
  last_tick_ = now;
  for (Connection& connection : connections_) {
    if (!connection.connected()) continue;
    // A coordinator that was stopped itself (SIGSTOP, a suspended machine) received nothing; this is not the
    // members' fault.
    if (since > kMemberStopped) connection.heard += since;
    if (connection.finishing_since()) {
      if (now - *connection.finishing_since() > kMemberGoodbye) connection.cancel();
    } else if (Seconds(now - connection.heard).count() > options_.patience_seconds) {
      const std::string silent = fmt::format("silent for {:.3g} seconds", options_.patience_seconds);
      if (connection.member == 0) {
        refuse(connection, {grpc::StatusCode::DEADLINE_EXCEEDED, "it sent nothing"});
      } else {
        lost(connection, silent, {grpc::StatusCode::ABORTED, silent});
      }
    }
  }
  registry_.tick(now);
}

void Coordinator::Impl::deliver() {
  for (const MemberRegistry::Answer& answer : registry_.take_answers()) {
    const auto connection = std::ranges::find(connections_, answer.member, &Connection::member);
    if (connection == connections_.end()) continue;
    connection->send(reply_of(answer.value));
    if (!std::holds_alternative<MemberRegistry::Leave>(answer.value)) continue;
    connection->member = 0;  // the registry knows it no more
    connection->finish(grpc::Status::OK, Clock::now());
  }
  std::vector<StepDone> steps = registry_.take_steps();
  if (!steps.empty() || registry_.epoch_finished()) changed_.notify_all();
  std::ranges::move(steps, std::back_inserter(complete_));
  std::ranges::move(registry_.take_news(), std::back_inserter(news_));
}

void Coordinator::Impl::deliver_from_outside() {
  deliver();
  poke();
}

std::vector<StepDone> Coordinator::Impl::wait(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, Seconds(seconds),
                    [this] { return failure_ || !complete_.empty() || registry_.epoch_finished(); });
  if (failure_) throw run_error("{}", *failure_);
  return std::exchange(complete_, {});
}

void Coordinator::Impl::begin_epoch(uint32_t epoch, int64_t first, int64_t steps, const std::string& place) {
  const std::lock_guard lock(mutex_);
  registry_.begin_epoch(epoch, first, steps, place);
  deliver_from_outside();
}

int64_t Coordinator::Impl::extend(const std::vector<std::string>& places) {
  const std::lock_guard lock(mutex_);
  if (!places.empty()) {
    registry_.extend(places);
    deliver_from_outside();
  }
  return registry_.unbegun();
}

void Coordinator::Impl::resize(int64_t workers, bool spares_leave) {
  const std::lock_guard lock(mutex_);
  registry_.resize(workers, spares_leave);
  deliver_from_outside();
}

void Coordinator::Impl::move(const std::vector<StoreHead>& heads) {
  const std::lock_guard lock(mutex_);
  members::Reply reply;
  for (size_t s = 0; s < heads.size(); ++s) {
    options_.servers[s] = heads[s].address;
    options_.generations[s] = heads[s].generation;
    options_.copies[s] = heads[s].copy;
    reply.mutable_heads()->add_servers(heads[s].address);
    reply.mutable_heads()->add_generations(heads[s].generation);
    reply.mutable_heads()->add_copies(heads[s].copy);
  }
  for (Connection& connection : connections_)
    if (connection.member != 0) connection.send(reply);
  poke();
}

void Coordinator::Impl::drain() {
  const std::lock_guard lock(mutex_);
  registry_.drain();
  deliver_from_outside();
}

bool Coordinator::Impl::epoch_finished() const {
  const std::lock_guard lock(mutex_);
  return registry_.epoch_finished() && complete_.empty();
}

int64_t Coordinator::Impl::steps_done() const {
  const std::lock_guard lock(mutex_);
  return registry_.steps_done();
}

void Coordinator::Impl::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
}

MemberLosses Coordinator::Impl::losses() const {
  const std::lock_guard lock(mutex_);
  return losses_;
}

std::vector<MemberInfo> Coordinator::Impl::members() const {
  const std::lock_guard lock(mutex_);
  return registry_.members();
}

Coordinator::Coordinator(CoordinatorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Coordinator::~Coordinator() = default;

std::string Coordinator::address() const { return impl_->address(); }
void Coordinator::begin_epoch(uint32_t epoch, int64_t first, int64_t steps, const std::string& place) {
  impl_->begin_epoch(epoch, first, steps, place);
}
void Coordinator::move(const std::vector<StoreHead>& heads) { impl_->move(heads); }
int64_t Coordinator::extend(const std::vector<std::string>& places) { return impl_->extend(places); }
void Coordinator::resize(int64_t workers, bool spares_leave) { impl_->resize(workers, spares_leave); }
void Coordinator::drain() { impl_->drain(); }
void Coordinator::abandon() { impl_->abandon(); }
bool Coordinator::epoch_finished() const { return impl_->epoch_finished(); }
int64_t Coordinator::steps_done() const { return impl_->steps_done(); }
std::vector<StepDone> Coordinator::wait(double seconds) { return impl_->wait(seconds); }
std::vector<MemberInfo> Coordinator::members() const { return impl_->members(); }
MemberLosses Coordinator::losses() const { return impl_->losses(); }

}  // namespace telar
