#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/store/store.h"
#include "telar/comm/store/store_frame.h"

namespace telar {

/// A request in transit: one frame, and where its answer goes.
struct StoreRequest {
  FrameHeader header;
  std::vector<uint32_t> members;
  std::span<const float> from;         ///< payload to send; may be empty
  std::shared_ptr<const void> keeper;  ///< owner of `from` while gRPC may read it; null: copy the payload
  std::span<float> into;               ///< where the floats of the answer go
  uint16_t payload = 0;                ///< payload_number(): how `from` is sent through a network
};

/// A member's arenas, allocated by Store::attach.
struct StoreArenas {
  std::span<float> outgoing;
  std::span<float> incoming;
  std::shared_ptr<const void> keeper;  ///< their owner; null: there are none yet

  /// Arenas in memory of their own.
  static StoreArenas of(size_t floats);
};

/// The requests of an exchange, one for each block. Throws Error (run) if it is not one of a range of these
/// arenas, or its round is not one. `who` is the server, for messages.
std::vector<StoreRequest> requests_of(const StoreExchange& exchange, const StoreArenas& arenas,
                                      const std::string& who);

/// The requests that copy a whole arena of a server with this layout and these slots. Throws Error (run) if
/// it has no arena `name`, or another number of floats.
std::vector<StoreRequest> read_requests(const StoreLayout& layout, const std::vector<std::string>& slots,
                                        const std::string& name, std::span<float> into,
                                        const std::string& who);
std::vector<StoreRequest> write_requests(const StoreLayout& layout, const std::vector<std::string>& slots,
                                         const std::string& name, std::span<const float> from,
                                         int64_t updates, const std::string& who);

}  // namespace telar
