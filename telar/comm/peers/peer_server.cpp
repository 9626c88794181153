#include "telar/comm/peers/peer_server.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <utility>

#include "telar/comm/printable.h"
#include "telar/comm/store/random_id.h"
#include "telar/core/error.h"

namespace telar {

namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 100ms;
/// How long a connection waits until this process knows its group.
constexpr auto kUntilIntroduced = 20s;
/// For the answer to a process that is refused, before the server ends.
constexpr auto kLastAnswers = 1s;

/// `processes`: 0: any number.
std::string group_text(uint32_t processes, const std::string& purpose) {
  return processes == 0 ? fmt::format("a group of any number of processes of {}", purpose)
                        : fmt::format("a group of {} processes of {}", processes, purpose);
}

/// The address of a connection's other side, without its port: gRPC writes "ipv4:10.0.0.1:4711" and
/// "ipv6:%5B::1%5D:4711".
std::string host_of_peer(std::string peer) {
  peer = peer.substr(peer.find(':') + 1);
  peer = peer.substr(0, peer.rfind(':'));
  for (const char* bracket : {"%5B", "%5D", "[", "]"})
    if (const size_t at = peer.find(bracket); at != std::string::npos)
      peer.erase(at, std::string_view(bracket).size());
  return peer;
}

}  // namespace

peers::Arrival own_arrival() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  peers::Arrival own;
  own.set_name(fmt::format("{}:{}", host.data(), getpid()));
  // Containers of one host have names of their own, and may have cores of their own.
  own.set_host(fmt::format("{} {}", host.data(), boot));
  return own;
}

PeerServer::PeerServer(const std::string& address, PeerOptions options, int processes)
    : options_(std::move(options)),
      messages_(kPeerMessagesMethod, [this](grpc::ServerContext& context,
                                            FrameServerStream& stream) { return accept(context, stream); }),
      builder_(address, options_.security, kMostPeerBytes),
      processes_(processes) {
  builder_.grpc().RegisterService(this);
  builder_.grpc().RegisterService(&messages_);
  server_ = builder_.start(options_.say);
}

PeerServer::~PeerServer() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  server_->shutdown(refused_.empty() && !ended_ ? 0s : kLastAnswers);
  server_->wait();
}

peers::Introduction PeerServer::gather(const std::string& description, const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  while (static_cast<int>(arrived_.size()) + 1 < processes_) {
    changed_.wait_for(lock, kLook);
    if (!refused_.empty()) throw user_error("{}", refused_);
    lock.unlock();
    if (options_.stop.stop_requested()) throw run_error("the run was stopped before all processes had come");
    if (check) check();
    lock.lock();
  }
  introduce_all(description);
  changed_.notify_all();
  return introduction_;
}

void PeerServer::introduce_all(const std::string& description) {
  const peers::Arrival arrival = own_arrival();
  peers::Introduced own;
  own.set_name(arrival.name());
  own.set_host(arrival.host());
  own.set_address(address());
  arrived_.insert(arrived_.begin(), own);
  // Those of one host are neighbours, in the order in which the first of each host has come.
  std::vector<std::string> hosts;
  for (const peers::Introduced& one : arrived_)
    if (std::ranges::find(hosts, one.host()) == hosts.end()) hosts.push_back(one.host());
  std::ranges::stable_sort(arrived_, {}, [&](const peers::Introduced& one) {
    return std::ranges::find(hosts, one.host()) - hosts.begin();
  });
  introduction_.set_group(fmt::format("{:016x}{:016x}", random_id(), random_id()));
  introduction_.set_description(description);
  *introduction_.mutable_members() = {arrived_.begin(), arrived_.end()};
  introduced_ = true;
}

void PeerServer::serve_by(FrameService::Serve serve) {
  const std::lock_guard lock(mutex_);
  serve_ = std::move(serve);
  changed_.notify_all();
}

void PeerServer::serve_no_more(const std::function<void()>& meanwhile) {
  serve_by({});
  std::unique_lock lock(mutex_);
  while (serving_ > 0) {
    changed_.wait_for(lock, kLook);
    lock.unlock();
    meanwhile();
    lock.lock();
  }
}

grpc::Status PeerServer::Join(grpc::ServerContext* context, const peers::Arrival* arrival,
                              peers::Introduction* reply) {
  if (grpc::Status status = check_caller(*context, options_.security); !status.ok()) return status;
  peers::Introduced one;
  one.set_name(printable(arrival->name()));
  one.set_host(printable(arrival->host()));
  one.set_address(Address{host_of_peer(context->peer()), static_cast<uint16_t>(arrival->port())}.text());
  const auto is_it = [&](const peers::Introduced& other) {
    return other.address() == one.address() && other.name() == one.name();
  };
  std::unique_lock lock(mutex_);
  if (place_ && arrival->purpose() == options_.purpose && arrival->processes() == 0)
    return take_place(*context, one, reply, lock);
  if (ended_) {
    ++told_over_;
    reply->set_over(true);
    return grpc::Status::OK;
  }
  if (processes_ == 0) return {grpc::StatusCode::UNAVAILABLE, "it leads no group of processes"};
  if (introduced_ || static_cast<int>(arrived_.size()) + 1 >= processes_)
    return {grpc::StatusCode::FAILED_PRECONDITION,
            fmt::format("the {} processes of this run have come already", processes_)};
  const auto processes = static_cast<uint32_t>(processes_);
  if (arrival->purpose() != options_.purpose ||
      (arrival->processes() != 0 && arrival->processes() != processes)) {
    refused_ = fmt::format("{} expects {}, and the first process, {}, waits for {}", one.name(),
                           group_text(arrival->processes(), printable(arrival->purpose())),
                           own_arrival().name(), group_text(processes, options_.purpose));
    changed_.notify_all();
    return {grpc::StatusCode::FAILED_PRECONDITION, refused_};
  }
  arrived_.push_back(one);
  if (options_.say)
    options_.say(
        fmt::format("{} has joined ({} of {} processes)", one.name(), arrived_.size() + 1, processes_));
  changed_.notify_all();
  while (!introduced_ && !over_ && !ended_ && refused_.empty()) {
    changed_.wait_for(lock, kLook);
    if (introduced_ || !context->IsCancelled()) continue;
    arrived_.erase(std::ranges::find_if(arrived_, is_it));
    if (options_.say) options_.say(fmt::format("{} has left before the run began", one.name()));
    return grpc::Status::CANCELLED;
  }
  if (!refused_.empty()) return {grpc::StatusCode::FAILED_PRECONDITION, refused_};
  if (!introduced_ && ended_) {
    reply->set_over(true);
    return grpc::Status::OK;
  }
  if (!introduced_) return {grpc::StatusCode::ABORTED, "the run has ended before it began"};
  *reply = introduction_;
  const auto& members = introduction_.members();
  reply->set_rank(
      static_cast<uint32_t>(std::find_if(members.begin(), members.end(), is_it) - members.begin()));
  return grpc::Status::OK;
}

void PeerServer::admit(Place place) {
  const std::lock_guard lock(mutex_);
  place_ = std::move(place);
  ended_ = place_ == nullptr;
  changed_.notify_all();
}

grpc::Status PeerServer::take_place(grpc::ServerContext& context, const peers::Introduced& one,
                                    peers::Introduction* reply, std::unique_lock<std::mutex>& lock) {
  for (bool said = false; place_ && !over_; changed_.wait_for(lock, kLook)) {
    if (context.IsCancelled()) return grpc::Status::CANCELLED;
    if (std::optional<peers::Introduction> taken = place_(one)) {
      *reply = std::move(*taken);
      return grpc::Status::OK;
    }
    if (!std::exchange(said, true) && options_.say)
      options_.say(fmt::format("{} waits for the place of a process that is lost", one.name()));
  }
  reply->set_over(true);
  return grpc::Status::OK;
}

grpc::Status PeerServer::accept(grpc::ServerContext& context, FrameServerStream& stream) {
  if (grpc::Status status = check_caller(context, options_.security); !status.ok()) return status;
  FrameService::Serve serve;
  {
    std::unique_lock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + kUntilIntroduced;
    // This process may learn of its group after another one has.
    while (!serve_ && !over_ && !context.IsCancelled() && std::chrono::steady_clock::now() < end)
      changed_.wait_for(lock, kLook);
    if (!serve_ || over_) return {grpc::StatusCode::UNAVAILABLE, "it has no group of processes"};
    serve = serve_;
    ++serving_;
  }
  grpc::Status status = serve(context, stream);
  const std::lock_guard lock(mutex_);
  --serving_;
  changed_.notify_all();
  return status;
}

}  // namespace telar
