#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "telar/comm/store/store_stream.h"
#include "telar/core/error.h"

namespace telar {

/// A request in transit: one frame, and where its answer goes.
struct StoreRequest {
  FrameHeader header;
  std::vector<uint32_t> members;
  std::span<const float> from;         ///< payload to send; may be empty
  std::shared_ptr<const void> keeper;  ///< owner of `from` while gRPC may read it; null: copy the payload
  std::span<float> into;               ///< where the floats of the answer go
};

/// The client's end of the stream, restored when it breaks. One thread opens it and receives answers; another
/// sends requests (the caller's thread sends small ones itself). Unanswered requests are sent again over the
/// next stream. If the server has restarted meanwhile, answered requests of a round are sent again, too,
/// because the sum may have to be computed again.
class StoreLink {
 public:
  /// `memory`: offered to the server for sharing, if the server can open it; may be null.
  StoreLink(const StoreClientOptions& options, std::shared_ptr<grpc::Channel> channel,
            std::shared_ptr<StoreMemory> memory);
  ~StoreLink();
  StoreLink(const StoreLink&) = delete;
  StoreLink& operator=(const StoreLink&) = delete;

  /// Queues the requests of one call.
  void start(std::vector<StoreRequest> requests);
  /// Waits for the answers to all requests. Throws Error (run) if the server is unreachable for too long or
  /// the run is stopped, and Error (user) if the server refuses.
  StoreReport finish();
  StoreClient::Traffic traffic() const;

 private:
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  struct Sent {
    StoreRequest request;
    bool answered = false;
  };

  void connect_for_ever();
  std::unique_ptr<Stream> open(grpc::ClientContext& context);
  void receive(Stream& stream);
  void welcome(const Frame& frame);
  void accept(const Frame& frame);
  void note(const FrameHeader& header);
  bool by_memory(const StoreRequest& request) const;
  void put_requests();
  void take_answers();
  void send_for_ever();
  void send_next(std::unique_lock<std::mutex>& lock);
  size_t next_unsent() const;
  int64_t first_round() const;
  int64_t pulled_version(size_t begin) const;
  void abandon(std::unique_lock<std::mutex>& lock);
  void wait_a_little(std::unique_lock<std::mutex>& lock);
  void say(const std::string& sentence) const;

  const StoreClientOptions& options_;
  const std::string who_;
  const uint64_t client_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<StoreMemory> memory_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  ///< an answer arrived, or the connection was made or broke
  std::condition_variable sendable_;
  bool ending_ = false;
  bool stopped_ = false;
  bool sending_ = false;
  bool copying_ = false;
  std::optional<Error> refused_;
  grpc::Status last_status_;
  StoreClock::time_point away_since_ = StoreClock::now();
  grpc::ClientContext* context_ = nullptr;  ///< of the stream being opened or used
  Stream* stream_ = nullptr;                ///< null: requests cannot be sent
  bool was_connected_ = false;

  std::deque<Sent> window_;  ///< requests since the last finish()
  uint64_t first_sequence_ = 1;
  size_t next_ = 0;  ///< index in the window of the next request to send
  size_t unanswered_ = 0;
  uint32_t in_memory_ = 0;  ///< requests in memory_ whose answers were not taken yet
  bool shared_ = false;     ///< the server of this connection has opened memory_
  int64_t finished_round_ = 0;
  uint64_t server_start_ = 0;
  std::map<size_t, int64_t> versions_;  ///< last pulled versions, by first float of the range
  StoreReport report_;
  double staleness_floats_ = 0;
  double pushed_floats_ = 0;
  StoreClient::Traffic traffic_;

  std::optional<std::stop_callback<std::function<void()>>> stop_;
  std::thread receiver_;
  std::thread sender_;
};

}  // namespace telar
