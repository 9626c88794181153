#include "telar/comm/members/membership.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "telar/comm/grpc_security.h"
#include "telar/comm/members/members.grpc.pb.h"
#include "telar/comm/members/protocol.h"
#include "telar/comm/members/replies.h"

namespace telar {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::chrono::milliseconds kRetry{100};
constexpr std::chrono::seconds kAliveEvery{1};

std::string own_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("{}:{}", host.data(), getpid());
}

}  // namespace

/// A separate thread takes the stream's events from a queue and tells the coordinator that the member is
/// alive. A calling thread sends its message itself, without waiting, unless another message is being sent.
class Membership::Impl {
 public:
  explicit Impl(MembershipOptions options);
  ~Impl();

  const Replies::Welcome& welcome() const { return *replies_.welcome; }

  bool lost() const;
  std::stop_token until_lost() const { return lost_.get_token(); }
  bool wait_for_work();
  std::optional<Lease> lease();
  void done(const PartDone& part);
  void give_back(uint64_t lease, int64_t step);
  std::optional<RoundAnswer> next_round(int64_t work, const std::set<uint64_t>& leases);
  std::optional<Lease> wait_for_turn(int64_t work);
  void fail_all(const std::string& sentence);
  void follow(std::function<void(const std::vector<StoreHead>&)> moved);

 private:
  enum class Event : uint8_t { started, read, written, finished };
  struct Tag {
    Event event;
  };
  using Lock = std::unique_lock<std::mutex>;

  /// Retries until it has joined or the patience is over.
  void join();
  void connect();
  void run();
  void handle(Event event, bool ok);
  void heard();
  void tick();
  void send(members::Request request);
  void send_next();
  /// Sends a question and waits for the reply. None if the membership ended first. Throws Error (run) when
  /// asked to stop.
  template <typename T>
  std::optional<T> ask(const members::Request& request, std::optional<T>& reply, const char* what);
  /// The same for a question that may also be answered by a lease.
  template <typename T>
  std::optional<std::variant<T, Lease>> ask_or_lease(const members::Request& request, std::optional<T>& reply,
                                                     const char* what);
  void wait_for_answer(Lock& lock, members::Request request, const std::function<bool()>& answered,
                       const char* what);
  bool joined() const { return replies_.welcome.has_value(); }
  bool ended() const { return replies_.over || finished_; }
  /// No operation of a stream is pending.
  bool idle() const { return finished_ && !writing_; }

  const MembershipOptions options_;
  const std::string who_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<members::Members::Stub> stub_;
  grpc::CompletionQueue queue_;
  Tag started_{Event::started};
  Tag read_{Event::read};
  Tag written_{Event::written};
  Tag finished_tag_{Event::finished};

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<members::Request, members::Reply>> stream_;
  grpc::Status status_;
  members::Reply reply_;
  std::deque<members::Request> to_send_;
  bool open_ = false;  ///< may write
  bool writing_ = false;
  bool finished_ = true;  ///< there is no stream
  std::stop_source lost_;
  bool leaving_ = false;
  Clock::time_point heard_ = Clock::now();
  Clock::time_point last_tick_ = Clock::now();
  Clock::time_point last_alive_ = Clock::now();

  Replies replies_;
  std::function<void(const std::vector<StoreHead>&)> moved_;
  std::optional<Error> impossible_;  ///< what the coordinator has sent that it cannot have meant
  std::thread thread_;
};

Membership::Impl::Impl(MembershipOptions options)
    : options_(std::move(options)),
      who_(fmt::format("The coordinator at {}", options_.coordinator)),
      channel_(secure_channel(options_.coordinator, options_.security, kMaxMemberMessageBytes)),
      stub_(members::Members::NewStub(channel_)) {
  thread_ = std::thread([this] { run(); });
  try {
    join();
  } catch (...) {
    queue_.Shutdown();
    thread_.join();
    throw;
  }
}

Membership::Impl::~Impl() {
  {
    Lock lock(mutex_);
    if (!finished_) {
      members::Request leave;
      leave.mutable_leave();
      leaving_ = true;
      send(std::move(leave));
      changed_.wait_for(lock, kMemberGoodbye, [this] { return idle(); });
      context_->TryCancel();
      changed_.wait(lock, [this] { return idle(); });
    }
  }
  queue_.Shutdown();
  thread_.join();
}

void Membership::Impl::join() {
  const Clock::time_point start = Clock::now();
  bool reported_away = false;
  Lock lock(mutex_);
  for (;;) {
    connect();
    const auto here = [this] { return joined() || idle(); };
    const Seconds left = Seconds(options_.patience_seconds) - (Clock::now() - start);
    changed_.wait_for(lock, options_.stop, std::max(left, Seconds(0)), here);
    if (joined()) break;
    if (!idle()) {
      context_->TryCancel();
      changed_.wait(lock, [this] { return idle(); });
    }
    if (options_.stop.stop_requested()) throw run_error("Joining {} was stopped", options_.coordinator);
    if (impossible_) throw Error(*impossible_);
    if (is_refusal(status_)) throw error_of(status_, who_);
    if (Clock::now() - start >= Seconds(options_.patience_seconds))
      throw run_error("{} cannot be reached for {:.3g} seconds: {}", who_, options_.patience_seconds,
                      reason_of(status_));
    if (!std::exchange(reported_away, true) && options_.say)
      options_.say(fmt::format("{} cannot be reached yet: {}", who_, reason_of(status_)));
    changed_.wait_for(lock, options_.stop, kRetry, [] { return false; });
  }
}

void Membership::Impl::connect() {
  finished_ = false;
  open_ = false;
  to_send_.clear();
  members::Request hello;
  hello.mutable_hello()->set_name(options_.name.empty() ? own_name() : options_.name);
  hello.mutable_hello()->set_job(options_.job);
  to_send_.push_back(std::move(hello));
  stream_.reset();  // uses memory of its context
  context_ = std::make_unique<grpc::ClientContext>();
  introduce(*context_, options_.security);
  stream_ = stub_->PrepareAsyncWork(context_.get(), &queue_);
  stream_->StartCall(&started_);
}

void Membership::Impl::run() {
  for (;;) {
    void* tag = nullptr;
    bool ok = false;
    const auto next = queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kMemberTick);
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    const std::lock_guard lock(mutex_);
    if (next == grpc::CompletionQueue::GOT_EVENT) handle(static_cast<const Tag*>(tag)->event, ok);
    if (Clock::now() - last_tick_ >= kMemberTick) tick();
  }
}

void Membership::Impl::handle(Event event, bool ok) {
  switch (event) {
    case Event::started:
      if (!ok) return stream_->Finish(&status_, &finished_tag_);
      open_ = true;
      stream_->Read(&reply_, &read_);
      return send_next();
    case Event::read:
      if (!ok) {
        open_ = false;
        return stream_->Finish(&status_, &finished_tag_);
      }
      heard();
      return stream_->Read(&reply_, &read_);
    case Event::written:
      writing_ = false;
      to_send_.pop_front();
      open_ = open_ && ok;
      send_next();
      break;
    case Event::finished:
      finished_ = true;
      open_ = false;
      if (!joined() || replies_.over || leaving_) break;
      if (options_.say) options_.say(fmt::format("{} has lost this worker: {}", who_, reason_of(status_)));
      lost_.request_stop();
      break;
  }
  changed_.notify_all();
}

void Membership::Impl::heard() {
  heard_ = Clock::now();
  try {
    replies_.take(reply_);
    if (reply_.has_heads() && moved_) moved_(replies_.heads);
  } catch (const Error& error) {
    impossible_ = Error(Error::Kind::run, fmt::format("{} sent {}", who_, error.what()));
  }
  if (impossible_ || (replies_.over && open_)) context_->TryCancel();
  changed_.notify_all();
}

void Membership::Impl::tick() {
  const Clock::time_point now = Clock::now();
  if (now - last_tick_ > kMemberStopped) heard_ += now - last_tick_;
  last_tick_ = now;
  if (!joined() || finished_) return;
  if (Seconds(now - heard_).count() > options_.patience_seconds) context_->TryCancel();
  if (now - last_alive_ < kAliveEvery) return;
  last_alive_ = now;
  members::Request alive;
  alive.mutable_alive();
  send(std::move(alive));
}

void Membership::Impl::send(members::Request request) {
  if (finished_) return;
  to_send_.push_back(std::move(request));
  send_next();
}

void Membership::Impl::send_next() {
  if (!open_ || writing_ || to_send_.empty()) return;
  writing_ = true;
  stream_->Write(to_send_.front(), &written_);
}

template <typename T>
std::optional<T> Membership::Impl::ask(const members::Request& request, std::optional<T>& reply,
                                       const char* what) {
  Lock lock(mutex_);
  reply.reset();
  wait_for_answer(
      lock, request, [&] { return reply.has_value(); }, what);
  return std::exchange(reply, std::nullopt);
}

template <typename T>
std::optional<std::variant<T, Lease>> Membership::Impl::ask_or_lease(const members::Request& request,
                                                                     std::optional<T>& reply,
                                                                     const char* what) {
  Lock lock(mutex_);
  reply.reset();
  replies_.lease.reset();
  wait_for_answer(
      lock, request, [&] { return reply || (replies_.lease && *replies_.lease); }, what);
  if (reply) return *std::exchange(reply, std::nullopt);
  if (replies_.lease) return *std::exchange(replies_.lease, std::nullopt).value();
  return std::nullopt;
}

/// Returns without an answer if the membership has ended.
void Membership::Impl::wait_for_answer(Lock& lock, members::Request request,
                                       const std::function<bool()>& answered, const char* what) {
  if (impossible_) throw Error(*impossible_);
  if (ended()) return;
  send(std::move(request));
  changed_.wait(lock, options_.stop, [&] { return answered() || impossible_ || ended(); });
  if (impossible_) throw Error(*impossible_);
  if (!answered() && !ended()) throw run_error("Waiting for {} was stopped", what);
}

bool Membership::Impl::lost() const {
  const std::lock_guard lock(mutex_);
  return finished_ && !replies_.over;
}

bool Membership::Impl::wait_for_work() {
  members::Request request;
  request.mutable_ask_work();
  return ask(request, replies_.work_there, "work").has_value();
}

std::optional<Lease> Membership::Impl::lease() {
  members::Request request;
  request.mutable_ask_lease();
  return ask(request, replies_.lease, "work").value_or(std::nullopt);
}

std::optional<WorkSource::RoundAnswer> Membership::Impl::next_round(int64_t work,
                                                                    const std::set<uint64_t>& leases) {
  members::Request request;
  request.mutable_ask_round()->set_work(work);
  request.mutable_ask_round()->mutable_leases()->Assign(leases.begin(), leases.end());
  return ask_or_lease(request, replies_.round, "the other workers");
}

std::optional<Lease> Membership::Impl::wait_for_turn(int64_t work) {
  members::Request request;
  request.mutable_ask_pace()->set_work(work);
  const auto answer = ask_or_lease(request, replies_.go_on, "the slowest worker");
  const Lease* lease = answer ? std::get_if<Lease>(&*answer) : nullptr;
  return lease == nullptr ? std::nullopt : std::optional(*lease);
}

void Membership::Impl::done(const PartDone& part) {
  members::Request request;
  members::Done& done = *request.mutable_done();
  done.set_lease(part.lease);
  done.set_step(part.step);
  done.set_samples(part.samples);
  done.mutable_metrics()->Assign(part.metrics.begin(), part.metrics.end());
  done.set_staleness(part.staleness);
  done.set_seconds(part.seconds);
  done.mutable_latency()->Assign(part.latency.classes().begin(), part.latency.classes().end());
  const std::lock_guard lock(mutex_);
  send(std::move(request));
}

void Membership::Impl::give_back(uint64_t lease, int64_t step) {
  members::Request request;
  request.mutable_given_back()->set_lease(lease);
  request.mutable_given_back()->set_step(step);
  const std::lock_guard lock(mutex_);
  send(std::move(request));
}

void Membership::Impl::fail_all(const std::string& sentence) {
  members::Request request;
  request.set_failure(sentence);
  const std::lock_guard lock(mutex_);
  send(std::move(request));
}

void Membership::Impl::follow(std::function<void(const std::vector<StoreHead>&)> moved) {
  const std::lock_guard lock(mutex_);
  moved_ = std::move(moved);
  if (moved_) moved_(replies_.heads);
}

Membership::Membership(MembershipOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Membership::~Membership() = default;

uint32_t Membership::id() const { return impl_->welcome().id; }
const std::string& Membership::job() const { return impl_->welcome().job; }
const std::string& Membership::description() const { return impl_->welcome().description; }
const std::vector<std::string>& Membership::servers() const { return impl_->welcome().servers; }
const std::vector<uint64_t>& Membership::tenures() const { return impl_->welcome().tenures; }
const std::vector<StoreHead>& Membership::heads() const { return impl_->welcome().heads; }
void Membership::follow(std::function<void(const std::vector<StoreHead>&)> moved) {
  impl_->follow(std::move(moved));
}
bool Membership::wait_for_work() { return impl_->wait_for_work(); }
bool Membership::lost() const { return impl_->lost(); }
std::stop_token Membership::until_lost() const { return impl_->until_lost(); }
std::optional<Lease> Membership::lease() { return impl_->lease(); }
void Membership::done(const PartDone& part) { impl_->done(part); }
void Membership::give_back(uint64_t lease, int64_t step) { impl_->give_back(lease, step); }
std::optional<WorkSource::RoundAnswer> Membership::next_round(int64_t work,
                                                              const std::set<uint64_t>& leases) {
  return impl_->next_round(work, leases);
}
std::optional<Lease> Membership::wait_for_turn(int64_t work) { return impl_->wait_for_turn(work); }
void Membership::fail_all(const std::string& sentence) { impl_->fail_all(sentence); }

}  // namespace telar
