#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "telar/comm/frame_service.h"
#include "telar/comm/store/store_blocks.h"
#include "telar/comm/store/store_client.h"
#include "telar/comm/store/store_requests.h"

// Only for sources in telar/comm/store.

namespace telar {

/// A client's pulls from the last server of a chain (StoreHead::copy) in one generation. What that server
/// has, all have: so the values are those of pushes that were answered, or are about to be. The stream is
/// opened by the first pull, and again by later ones after it has broken. Used by one thread, except
/// cancel().
class CopyPulls {
 public:
  /// `options`: the client's; they name the server and the generation.
  explicit CopyPulls(StoreClientOptions options);
  ~CopyPulls();
  CopyPulls(const CopyPulls&) = delete;
  CopyPulls& operator=(const CopyPulls&) = delete;

  /// Copies the values of an answer to their place.
  using Taken =
      std::function<void(const FrameHeader& answer, const FramePayload& values, std::span<float> into)>;
  /// Returns the requests that are to be sent to the head: the server has no acknowledged values of their
  /// blocks, or is lost.
  std::vector<StoreRequest> pull(std::vector<StoreRequest> requests, const Taken& taken);
  /// Ends a pull() in progress, and each later one at once.
  void cancel();

 private:
  bool open();
  void exchange(std::vector<StoreRequest>& requests, size_t& answered, std::vector<StoreRequest>& refused,
                const Taken& taken);
  bool ask(StoreRequest& request);
  void close(const std::string& damage);

  const StoreClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::ClientContext> context_;  ///< changed under the mutex
  std::unique_ptr<FrameClientStream> stream_;     ///< null: there is none
  uint64_t sequence_ = 0;                         ///< of the last request
  StoreClock::time_point again_;                  ///< when it may be opened
  std::string said_;                              ///< why it broke
  std::mutex mutex_;
  bool cancelled_ = false;
  std::stop_callback<std::function<void()>> stop_;
};

/// The server's side: answers pulls until the stream ends or is cancelled. An answer has no floats if this
/// server is not, or not yet, one whose values are acknowledged. Throws Error for other requests.
void serve_copy_pulls(FrameServerStream& stream, StoreBlocks& blocks, int64_t generation,
                      bool payload_checksums);

}  // namespace telar
