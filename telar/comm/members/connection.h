#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "telar/comm/grpc_security.h"
#include "telar/comm/members/members.grpc.pb.h"

namespace telar {

/// One stream from a member to the coordinator, with at most one read and one write in flight, all on one completion queue. Its
/// functions are called by the thread that holds the coordinator's lock; none of them waits.
class Connection {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Event : uint8_t { arrived, read, written, finished };
  struct Tag {
    Connection* connection = nullptr;
    Event event = Event::arrived;
  };

  /// Waits for the next one who comes.
  Connection(members::Members::AsyncService& service, grpc::ServerCompletionQueue& queue);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Notes that an operation has ended, and goes on with what was to follow. False: it did not succeed.
  void ended(Event event, bool ok);
  void read();
  void send(members::Reply reply);
  /// The last thing that the other side gets, after all replies.
  void finish(const grpc::Status& status, Time now);
  /// When the other side does not take it.
  void cancel() { context_.TryCancel(); }
  /// Starts no more operations: the queue is about to be shut down.
  void freeze() { frozen_ = true; }

  const members::Request& request() const { return request_; }
  grpc::ServerContext& context() { return context_; }
  bool connected() const { return connected_; }  ///< somebody came
  bool idle() const { return in_flight_ == 0; }  ///< may be destroyed, when over() or frozen
  bool over() const { return finished_; }
  std::optional<Time> finishing_since() const { return finishing_since_; }
  size_t unsent() const { return to_send_.size(); }
  /// How long nothing came, apart from the time in which this process was stopped itself.
  Time heard = {};
  uint32_t member = 0;  ///< 0: has not said who it is, or is no member any more

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
