#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "telar/comm/grpc_security.h"
#include "telar/comm/members/members.grpc.pb.h"

namespace telar {

/// One stream from a member to the coordinator, on one completion queue, with at most one read and one write
/// in flight. The functions are called by the thread that holds the coordinator's lock; none of them waits.
class Connection {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Event : uint8_t { arrived, read, written, finished };
  struct Tag {
    Connection* connection = nullptr;
    Event event = Event::arrived;
  };

  /// Accepts the next member that connects.
  Connection(members::Members::AsyncService& service, grpc::ServerCompletionQueue& queue);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Records the end of an operation and starts the next one. `ok` is false if the operation failed.
  void ended(Event event, bool ok);
  void read();
  void send(members::Reply reply);
  /// Sends the final status, after all replies.
  void finish(const grpc::Status& status, Time now);
  /// For a peer that does not take the final status.
  void cancel() { context_.TryCancel(); }
  /// Starts no more operations, because the queue is about to be shut down.
  void freeze() { frozen_ = true; }

  const members::Request& request() const { return request_; }
  grpc::ServerContext& context() { return context_; }
  bool connected() const { return connected_; }  ///< a member has connected
  bool idle() const { return in_flight_ == 0; }  ///< may be destroyed, when over() or frozen
  bool over() const { return finished_; }
  std::optional<Time> finishing_since() const { return finishing_since_; }
  size_t unsent() const { return to_send_.size(); }
  /// When the last message arrived, moved forward by the time for which this process itself was stopped.
  Time heard = {};
  uint32_t member = 0;  ///< 0: has not sent its hello, or is no longer a member

 private:
  void go_on();

  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<members::Reply, members::Request> stream_{&context_};
  Tag arrived_{this, Event::arrived};
  Tag read_{this, Event::read};
  Tag written_{this, Event::written};
  Tag finished_tag_{this, Event::finished};
  members::Request request_;
  std::deque<members::Reply> to_send_;
  int in_flight_ = 0;
  bool connected_ = false;
  bool writing_ = false;
  bool frozen_ = false;
  bool finish_started_ = false;
  bool finished_ = false;
  std::optional<Time> finishing_since_;
  grpc::Status status_;
};

}  // namespace telar
