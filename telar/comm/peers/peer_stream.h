#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/sync_stream.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "telar/comm/peers/peer_frame.h"
#include "telar/comm/peers/peer_inbox.h"

namespace telar {

/// The connection to one peer. Messages are sent by a thread of its own, small ones by their caller, and
/// received by the thread that calls serve().
class PeerStream {
 public:
  using Writer = grpc::internal::WriterInterface<grpc::ByteBuffer>;
  using Reader = grpc::internal::ReaderInterface<grpc::ByteBuffer>;

  /// Called from any thread, with locks held, when a message has passed, or, with true, the peer is lost.
  using News = std::function<void(bool lost)>;
  /// `name`: of the peer.
  PeerStream(std::string name, News news);
  ~PeerStream();
  PeerStream(const PeerStream&) = delete;
  PeerStream& operator=(const PeerStream&) = delete;

  PeerInbox& inbox() { return inbox_; }

  /// Sends a message. Its bytes must stay while parts are in transit, of which `in_transit` is the number.
  void send(MessageKey key, std::span<const std::byte> bytes, std::atomic<size_t>& in_transit);
  /// Waits until nothing of a message is in transit, of which the rest may be dropped: its generation has
  /// failed. If the peer takes nothing at all, the connection is ended.
  void recall(const std::atomic<size_t>& in_transit);

  /// Receives until the connection ends; `cancel` ends it at once, from any thread. Called once.
  void serve(Reader& reader, Writer& writer, std::function<void()> cancel);
  /// Of a connection that could not be made.
  void lose(const std::string& why);
  /// Waits for serve() until `end`. Returns whether the peer is connected.
  bool wait_until_connected(std::chrono::steady_clock::time_point end);
  /// Why the peer is lost, as a sentence; empty: it is not. `farewell`: how long one that has left is not.
  std::string lost(std::chrono::milliseconds farewell = {}) const;

  /// Whether the peer has said its last words: goodbye, that it leaves, or that it has failed.
  bool has_left() const;

  /// The last message that has come, but for those of the watch, in words; empty: none has.
  std::string last_message() const;

  /// The last words, behind what was sent before: goodbye, or a failure and why.
  void say_last(PeerFrame::Kind last, const std::string& why);
  /// Waits until the last words of both are sent and received. After `patience` the connection is ended.
  void close(std::chrono::milliseconds patience);

 private:
  struct Part {
    PeerFrame frame;
    std::span<const std::byte> bytes;
    std::atomic<size_t>* in_transit = nullptr;
    std::string text = {};  ///< last words
  };

  void write_for_ever();
  /// Writes the first part; releases the lock meanwhile.
  void write_next(std::unique_lock<std::mutex>& lock);
  void receive(Reader& reader);
  /// Those of a message that wait to be sent; null: all. The peer keeps the message's beginning until its
  /// generation is dropped.
  void drop_parts(const std::atomic<size_t>* in_transit);
  /// Ends the connection; holds mutex_.
  void cancel();
  bool all_said() const { return last_said_ && parts_.empty() && !writing_; }

  std::string name_;
  News news_;
  PeerInbox inbox_;
  mutable std::mutex mutex_;  ///< guards the members below
  std::condition_variable changed_;
  std::deque<Part> parts_;
  Writer* writer_ = nullptr;  ///< null: not connected
  std::function<void()> cancel_;
  bool writing_ = false;
  bool last_said_ = false;   ///< nothing more is sent
  bool last_heard_ = false;  ///< the peer has said goodbye
  bool last_words_ = false;  ///< of the peer, of any kind
  bool ended_ = false;       ///< serve() has returned, or will not be called
  bool over_ = false;        ///< this object ends
  std::string lost_;
  std::optional<std::chrono::steady_clock::time_point> left_;  ///< when the peer has left, if it has
  std::atomic<Lane> last_lane_{Lane::watch};
  std::atomic<std::chrono::steady_clock::time_point> last_time_{};
  std::thread thread_;
};

}  // namespace telar
