#include "telar/comm/members/connection.h"

#include <utility>

namespace telar {

Connection::Connection(members::Members::AsyncService& service, grpc::ServerCompletionQueue& queue) {
  ++in_flight_;
  service.RequestWork(&context_, &stream_, &queue, &queue, &arrived_);
}

void Connection::ended(Event event, bool ok) {
  --in_flight_;
  switch (event) {
    case Event::arrived:
      connected_ = ok;
      finished_ = !ok;
      break;
    case Event::read: break;
    case Event::written:
      writing_ = false;
      to_send_.pop_front();
      // The peer is gone; the pending read reports it, too.
      if (!ok) to_send_.clear();
      break;
    case Event::finished: finished_ = true; break;
  }
  go_on();
}

void Connection::read() {
  if (frozen_ || finishing_since_) return;
  ++in_flight_;
  stream_.Read(&request_, &read_);
}

void Connection::send(members::Reply reply) {
  if (finishing_since_) return;
  to_send_.push_back(std::move(reply));
  go_on();
}

void Connection::finish(const grpc::Status& status, Time now) {
  if (finishing_since_) return;
  finishing_since_ = now;
  status_ = status;
  go_on();
}

void Connection::go_on() {
  if (frozen_ || writing_ || finish_started_ || !connected_) return;
  if (!to_send_.empty()) {
    writing_ = true;
    ++in_flight_;
    stream_.Write(to_send_.front(), &written_);
  } else if (finishing_since_) {
    finish_started_ = true;
    ++in_flight_;
    stream_.Finish(status_, &finished_tag_);
  }
}

}  // namespace telar
