#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "telar/comm/store/store_ledger.h"
#include "telar/comm/store/store_requests.h"

namespace telar {

/// The requests of a Store since its last finish(), and what the server has answered, without network and
/// threads. Whatever the server sends is checked before it is used. Not thread-safe.
class StoreWindow {
 public:
  // Requests are sent in the order in which they were added; after a new connection, again from the first one
  // without an answer.
  void add(StoreRequest request);
  bool all_sent() const { return next_ == requests_.size(); }
  /// The next request to send, with the version of the floats that were pulled last.
  StoreRequest& next();
  void sent() { ++next_; }
  size_t unsent() const { return requests_.size() - next_; }
  /// Continues behind requests that are answered and need not be repeated.
  void skip_answered();
  bool all_answered() const { return unanswered_ == 0; }
  /// The first round to which these requests, or later ones, contribute.
  int64_t first_round() const;

  /// What the first frame of a connection says.
  struct Welcomed {
    uint64_t proof = 0;      ///< of the memory that the server has opened; 0: none
    bool again = false;      ///< there was a connection before
    bool restarted = false;  ///< the server was restarted meanwhile
    int64_t lost = 0;        ///< updates that this restart has cost, at least
    bool unknown = false;    ///< how many it has cost is not known
  };
  /// Throws Error (user) if the frame is not a valid welcome.
  Welcomed welcome(const Frame& frame);

  /// Where the floats of an answer go; empty: nowhere. None: the answer belongs to no present request. Throws
  /// Error (user) if it does not match its request.
  std::optional<std::span<float>> place_of(const FrameHeader& answer) const;
  /// Records an answer that has a place, after its floats were copied.
  void note(const FrameHeader& answer);

  /// These floats were pulled elsewhere.
  void pulled(const FrameHeader& answer) { versions_[answer.begin] = answer.version; }

  /// After all_answered().
  StoreReport finish();
  /// Nothing is sent any more, and floats go nowhere.
  void abandon();
  /// What the server's restarts have cost since the first connection.
  const StoreLosses& losses() const { return losses_; }

 private:
  struct Sent {
    StoreRequest request;
    bool answered = false;
  };

  int64_t pulled_version(size_t begin) const;
  int64_t step_back(const std::map<size_t, int64_t>& restored);

  std::deque<Sent> requests_;
  uint64_t first_sequence_ = 1;
  size_t next_ = 0;  ///< index of the next request to send
  size_t unanswered_ = 0;
  int64_t finished_round_ = 0;
  uint64_t server_start_ = 0;  ///< 0: was never connected
  StoreLosses server_losses_;  ///< as the server counts them
  StoreLosses losses_;
  std::map<size_t, int64_t> versions_;  ///< last pulled versions, by first float of the range
  StoreReport report_;
  std::optional<int64_t> read_updates_;
  double staleness_floats_ = 0;
  double pushed_floats_ = 0;
};

}  // namespace telar
