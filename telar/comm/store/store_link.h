#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "telar/comm/store/store_client.h"
#include "telar/comm/store/store_stream.h"
#include "telar/comm/store/store_window.h"
#include "telar/core/error.h"

namespace telar {

/// The client's end of the stream, restored when it breaks. One thread opens it and receives answers; another
/// sends requests (the caller's thread sends small ones itself). Unanswered requests are sent again over the
/// next stream. If the server has restarted meanwhile, answered requests of a round are sent again, too,
/// because the sum may have to be computed again. A frame that arrives damaged ends the stream like a lost
/// connection.
class StoreLink {
 public:
  /// `memory`: offered to the server for sharing, if the server can open it; may be null.
  StoreLink(const StoreClientOptions& options, std::string who, std::shared_ptr<grpc::Channel> channel,
            std::shared_ptr<StoreMemory> memory);
  ~StoreLink();
  StoreLink(const StoreLink&) = delete;
  StoreLink& operator=(const StoreLink&) = delete;

  /// StoreClient::move()
  void move(const StoreHead& head, std::shared_ptr<grpc::Channel> channel);

  /// Queues the requests of one call.
  void start(std::vector<StoreRequest> requests);
  /// Waits for the answers to all requests. Throws Error (run) if the server is unreachable for too long or
  /// the run is stopped, and Error (user) if the server refuses.
  StoreReport finish();
  /// The copy of a block has answered a pull: copies the values into the caller's memory, which the receiving
  /// thread may be moving to other pages (StoreMemory::renew()).
  void pulled(const FrameHeader& answer, const FramePayload& values, std::span<float> into);
  StoreClient::Traffic traffic() const;
  double seconds_away() const;
  StoreLosses losses() const;
  /// StoreClient::failure()
  std::optional<Error> failure() const;

 private:
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  void connect_for_ever();
  std::unique_ptr<Stream> open(grpc::ClientContext& context);
  void receive(Stream& stream);
  void welcome(const Frame& frame);
  void accept(const Frame& frame);
  bool by_memory(const StoreRequest& request) const;
  void put_requests();
  void take_answers();
  void send_for_ever();
  void send_next(std::unique_lock<std::mutex>& lock);
  void abandon(std::unique_lock<std::mutex>& lock);
  std::optional<Error> failure_locked() const;
  void wait_a_little(std::unique_lock<std::mutex>& lock);
  void say(const std::string& sentence) const;

  const StoreClientOptions& options_;
  const std::string who_;
  const uint64_t client_;
  std::shared_ptr<StoreMemory> memory_;

  mutable std::mutex mutex_;  ///< guards the members below
  std::shared_ptr<grpc::Channel> channel_;
  int64_t generation_;
  bool payload_checksums_;
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
  bool said_lost_ = false;    ///< that it was
  int damaged_in_a_row_ = 0;  ///< connections that ended with a damaged frame, since the last answer

  StoreWindow window_;
  uint32_t in_memory_ = 0;  ///< requests in memory_ whose answers were not taken yet
  bool shared_ = false;     ///< the server of this connection has opened memory_
  bool another_ = false;    ///< the next connection is to another server
  StoreClient::Traffic traffic_;

  std::optional<std::stop_callback<std::function<void()>>> stop_;
  std::thread receiver_;
  std::thread sender_;
};

}  // namespace telar
