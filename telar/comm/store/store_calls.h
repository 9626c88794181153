#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "telar/comm/store/store.pb.h"
#include "telar/comm/store/store_chain.h"
#include "telar/comm/store/store_layout.h"
#include "telar/comm/store/store_snapshot.h"

// What the calls to a parameter server contain, checked. Only for sources in telar/comm/store.

namespace telar {

using StoredPieces = google::protobuf::RepeatedPtrField<store::Piece>;

void add_pieces(const StoreLayout& layout, StoredPieces& pieces);
/// Throws like StoreLayout::of.
StoreLayout layout_of(const StoredPieces& pieces);
/// What a server is asked to hold. Throws like StoreLayout::of.
StoreIdentity identity_of(const store::CreateRequest& request);

/// Throws Error (user) if it is no chain.
ConfiguredChain chain_of(const store::Chain& message);

/// Metadata that a client sends when it opens the stream of frames, in addition to token and version.
inline constexpr char kJobKey[] = "telar-job";
inline constexpr char kMemberKey[] = "telar-member";
inline constexpr char kClientKey[] = "telar-client";  ///< a random number of this StoreClient
inline constexpr char kMemoryKey[] =
    "telar-memory";  ///< StoreMemory::where(), or with kSuccessorKey ChainMemory::where(); optional
inline constexpr char kChecksumsKey[] = "telar-checksums";    ///< "0": with kPlainPayload, in both directions
inline constexpr char kRoundKey[] = "telar-round";            ///< first round to which it will contribute
inline constexpr char kTenureKey[] = "telar-tenure";          ///< StoreTenure; optional
inline constexpr char kShardKey[] = "telar-shard";            ///< in any call: whose copy is meant; optional
inline constexpr char kGenerationKey[] = "telar-generation";  ///< of the shard's chain; with kShardKey
/// A stream between servers, opened by the successor: its id. It has kJobKey, kShardKey, kGenerationKey and
/// kChecksumsKey, too.
inline constexpr char kSuccessorKey[] = "telar-successor";
/// A client's stream of pulls from a copy (CopyPulls): "1". It has the same keys as one between servers.
inline constexpr char kCopyKey[] = "telar-copy";

struct TransferOpening {
  uint32_t member = 0;
  int64_t first_round = 0;
  uint64_t client = 0;
  std::string memory;
  bool payload_checksums = true;
  uint64_t tenure = 0;
  int64_t generation = 0;
};
/// `value` returns the text of a key, or an empty one. Throws Error (user) if a number is missing or invalid.
TransferOpening opening_of(const std::function<std::string(const char* key)>& value);
/// The number that a key's text is; 0 if there is none. Throws Error (user) if it is not one.
uint64_t optional_number(const std::string& text, const char* key);

}  // namespace telar
