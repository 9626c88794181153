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
class Visit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Event : uint8_t { arrived, read, written, finished };
  struct Tag {
    Visit* visit = nullptr;
    Event event = Event::arrived;
  };

  /// Waits for the next one who comes.
  Visit(members::Members::AsyncService& service, grpc::ServerCompletionQueue& queue);
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  /// Notes that an operation has ended, and goes on with what was to follow. False: it did not succeed.
  void ended(Event event, bool ok);
  void read();
  void tell(members::Told told);
  /// The last thing that the other side gets, after all that was told.
  void finish(const grpc::Status& status, Time now);
  /// When the other side does not take it.
  void cancel() { context_.TryCancel(); }
  /// Starts no more operations: the queue is about to be shut down.
  void freeze() { frozen_ = true; }

  const members::Said& said() const { return said_; }
  grpc::ServerContext& context() { return context_; }
  bool here() const { return here_; }            ///< somebody came
  bool idle() const { return in_flight_ == 0; }  ///< may be destroyed, when over() or frozen
  bool over() const { return finished_; }
  std::optional<Time> finishing_since() const { return finishing_since_; }
  size_t untold() const { return to_tell_.size(); }
  /// How long nothing came, apart from the time in which this process was stopped itself.
  Time heard = {};
  uint32_t member = 0;  ///< 0: has not said who it is, or is no member any more

 private:
  void go_on();

  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<members::Told, members::Said> stream_{&context_};
  Tag arrived_{this, Event::arrived};
  Tag read_{this, Event::read};
  Tag written_{this, Event::written};
  Tag finished_tag_{this, Event::finished};
  members::Said said_;
  std::deque<members::Told> to_tell_;
  int in_flight_ = 0;
  bool here_ = false;
  bool writing_ = false;
  bool frozen_ = false;
  bool finish_started_ = false;
  bool finished_ = false;
  std::optional<Time> finishing_since_;
  grpc::Status status_;
};

}  // namespace telar
