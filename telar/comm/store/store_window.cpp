#include "telar/comm/store/store_window.h"

#include <algorithm>
#include <string>
#include <utility>

#include "telar/comm/store/store.pb.h"
#include "telar/core/error.h"

namespace telar {
namespace {

bool in_round(const StoreRequest& request) { return (request.header.flags & kRound) != 0; }

bool wants_floats(const StoreRequest& request) {
  return request.header.kind == FrameKind::read || (request.header.flags & kPull) != 0;
}

store::Welcome parse_welcome(const Frame& frame) {
  std::string bytes(frame.payload.bytes(), ' ');
  frame.payload.copy_to(std::as_writable_bytes(std::span(bytes)));
  store::Welcome message;
  const auto possible = [](int64_t count) { return count >= 0 && count <= kMostUpdates; };
  if (!message.ParseFromString(bytes) || message.start() == 0 ||
      message.begins_size() != message.versions_size() ||
      !std::ranges::all_of(message.versions(), possible) || !possible(message.restarts()) ||
      !possible(message.lost_updates()) || !possible(message.unknown_losses()))
    throw user_error("a damaged welcome");
  return message;
}

}  // namespace

void StoreWindow::add(StoreRequest request) {
  request.header.sequence = first_sequence_ + requests_.size();
  requests_.push_back({.request = std::move(request)});
  ++unanswered_;
}

StoreRequest& StoreWindow::next() {
  StoreRequest& request = requests_[next_].request;
  if (request.header.kind == FrameKind::exchange)
    request.header.version = pulled_version(request.header.begin);
  return request;
}

/// A request of a round is repeated although it is answered: the sum may have to be computed again.
void StoreWindow::skip_answered() {
  while (next_ < requests_.size() && requests_[next_].answered && !in_round(requests_[next_].request))
    ++next_;
}

int64_t StoreWindow::first_round() const {
  for (const Sent& sent : requests_)
    if (in_round(sent.request)) return sent.request.header.round;
  return finished_round_ + 1;
}

int64_t StoreWindow::pulled_version(size_t begin) const {
  const auto found = versions_.upper_bound(begin);
  return found == versions_.begin() ? -1 : std::prev(found)->second;
}

/// The server has gone back to these versions. Returns the most updates that a range has lost.
int64_t StoreWindow::step_back(const std::map<size_t, int64_t>& restored) {
  int64_t lost = 0;
  for (auto& [begin, version] : versions_) {
    const auto after = restored.upper_bound(begin);
    const int64_t had = after == restored.begin() ? 0 : std::prev(after)->second;
    lost = std::max(lost, version - had);
    version = std::min(version, had);
  }
  return lost;
}

StoreWindow::Welcomed StoreWindow::welcome(const Frame& frame) {
  const store::Welcome message = parse_welcome(frame);
  const StoreLosses now{
      .restarts = message.restarts(), .updates = message.lost_updates(), .unknown = message.unknown_losses()};
  Welcomed result{.proof = message.proof(), .again = server_start_ != 0};
  next_ = 0;
  result.restarted = result.again && server_start_ != message.start();
  if (result.restarted) {
    std::map<size_t, int64_t> restored;
    for (int i = 0; i < message.begins_size(); ++i) restored[message.begins(i)] = message.versions(i);
    result.lost = step_back(restored);
    report_.lost_updates += result.lost;
    const StoreLosses since = now.since(server_losses_);
    losses_ = losses_.with(since);
    result.lost = std::max(result.lost, since.updates);
    result.unknown = since.unknown > 0;
  } else {
    while (next_ < requests_.size() && requests_[next_].answered) ++next_;
  }
  server_losses_ = now;
  server_start_ = message.start();
  return result;
}

std::optional<std::span<float>> StoreWindow::place_of(const FrameHeader& answer) const {
  if (answer.kind != FrameKind::answer) throw user_error("a request, which only clients may send");
  if (answer.sequence < first_sequence_) return std::nullopt;  // the request was sent twice
  if (answer.sequence - first_sequence_ >= requests_.size()) throw user_error("an answer without a request");
  const StoreRequest& request = requests_[answer.sequence - first_sequence_].request;
  if (request.header.begin != answer.begin || request.header.end != answer.end)
    throw user_error("an answer for another range than requested");
  const bool has_floats = (answer.flags & kPull) != 0;
  if (has_floats && !wants_floats(request)) throw user_error("floats that were not requested");
  if (!has_floats && wants_floats(request)) throw user_error("an answer without the requested floats");
  return request.into;
}

void StoreWindow::note(const FrameHeader& answer) {
  Sent& sent = requests_[answer.sequence - first_sequence_];
  const FrameHeader& request = sent.request.header;
  if (request.kind == FrameKind::exchange && (answer.flags & kPull) != 0) pulled(answer);
  if (std::exchange(sent.answered, true)) return;
  if (request.kind == FrameKind::read)
    read_updates_ = std::min(read_updates_.value_or(answer.version), answer.version);
  report_.finite &= (answer.flags & kNotFinite) == 0;
  report_.late |= (answer.flags & kLate) != 0;
  if ((request.flags & kPush) != 0) {
    const auto floats = static_cast<double>(answer.end - answer.begin);
    pushed_floats_ += floats;
    staleness_floats_ += floats * answer.number;
  }
  --unanswered_;
}

StoreReport StoreWindow::finish() {
  for (const Sent& sent : requests_)
    if (in_round(sent.request)) finished_round_ = std::max(finished_round_, sent.request.header.round);
  first_sequence_ += requests_.size();
  requests_.clear();
  next_ = 0;
  StoreReport report = std::exchange(report_, {});
  if (pushed_floats_ > 0) report.staleness = staleness_floats_ / pushed_floats_;
  pushed_floats_ = staleness_floats_ = 0;
  report.updates = std::exchange(read_updates_, std::nullopt).value_or(0);
  return report;
}

void StoreWindow::abandon() {
  next_ = requests_.size();
  for (Sent& sent : requests_) {
    sent.request.into = {};
    sent.request.from = {};
  }
}

}  // namespace telar
