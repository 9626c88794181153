#include "telar/comm/members/visit.h"

#include <utility>

namespace telar {

Visit::Visit(members::Members::AsyncService& service, grpc::ServerCompletionQueue& queue) {
  ++in_flight_;
  service.RequestWork(&context_, &stream_, &queue, &queue, &arrived_);
}

void Visit::ended(Event event, bool ok) {
  --in_flight_;
  switch (event) {
    case Event::arrived:
      here_ = ok;
      finished_ = !ok;
      break;
    case Event::read: break;
    case Event::written:
      writing_ = false;
      to_tell_.pop_front();
      // Nobody is there any more: the pending read says so too.
      if (!ok) to_tell_.clear();
      break;
    case Event::finished: finished_ = true; break;
  }
  go_on();
}

void Visit::read() {
  if (frozen_ || finishing_since_) return;
  ++in_flight_;
  stream_.Read(&said_, &read_);
}

void Visit::tell(members::Told told) {
  if (finishing_since_) return;
  to_tell_.push_back(std::move(told));
  go_on();
}

void Visit::finish(const grpc::Status& status, Time now) {
  if (finishing_since_) return;
  finishing_since_ = now;
  status_ = status;
  go_on();
}

void Visit::go_on() {
  if (frozen_ || writing_ || finish_started_ || !here_) return;
  if (!to_tell_.empty()) {
    writing_ = true;
    ++in_flight_;
    stream_.Write(to_tell_.front(), &written_);
  } else if (finishing_since_) {
    finish_started_ = true;
    ++in_flight_;
    stream_.Finish(status_, &finished_tag_);
  }
}

}  // namespace telar
