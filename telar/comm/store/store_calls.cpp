#include "telar/comm/store/store_calls.h"

#include <charconv>
#include <utility>
#include <vector>

#include "telar/core/error.h"

namespace telar {
namespace {

template <typename Number>
Number number_of(const std::string& text, const char* key) {
  Number number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size() || text.empty())
    throw user_error("the stream was opened without a valid {}", key);
  return number;
}

}  // namespace

void add_pieces(const StoreLayout& layout, StoredPieces& pieces) {
  for (const StoredPiece& piece : layout.pieces) {
    store::Piece& added = *pieces.Add();
    added.set_name(piece.name);
    added.set_floats(piece.floats);
  }
}

StoreLayout layout_of(const StoredPieces& pieces) {
  std::vector<StoredPiece> all;
  for (const store::Piece& piece : pieces) all.push_back({.name = piece.name(), .floats = piece.floats()});
  return StoreLayout::of(std::move(all));
}

StoreIdentity identity_of(const store::CreateRequest& request) {
  return {.job = request.job(), .description = request.description(), .layout = layout_of(request.pieces())};
}

TransferOpening opening_of(const std::function<std::string(const char* key)>& value) {
  const std::string tenure = value(kTenureKey);
  return {.member = number_of<uint32_t>(value(kMemberKey), kMemberKey),
          .first_round = number_of<int64_t>(value(kRoundKey), kRoundKey),
          .client = number_of<uint64_t>(value(kClientKey), kClientKey),
          .memory = value(kMemoryKey),
          .payload_checksums = value(kChecksumsKey) != "0",
          .tenure = tenure.empty() ? 0 : number_of<uint64_t>(tenure, kTenureKey)};
}

}  // namespace telar
