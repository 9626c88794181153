#include "telar/comm/store/store_calls.h"

#include <algorithm>
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

ConfiguredChain chain_of(const store::Chain& message) {
  constexpr int kMostServers = 16;
  ConfiguredChain chain{.chain = {.generation = message.generation(),
                                  .servers = {message.servers().begin(), message.servers().end()},
                                  .joins_since = message.joins_since(),
                                  .ordered_since = message.ordered_since()},
                        .founded = message.founded(),
                        .addresses = {message.addresses().begin(), message.addresses().end()}};
  std::vector<StoreServerId> sorted = chain.chain.servers;
  std::ranges::sort(sorted);
  if (message.servers_size() < 1 || message.servers_size() > kMostServers ||
      message.servers_size() != message.addresses_size() || message.founded() < 1 ||
      message.generation() < message.founded() || message.joins_since() < 0 ||
      message.joins_since() > message.generation() || message.ordered_since() < 0 ||
      message.ordered_since() > message.generation() || std::ranges::adjacent_find(sorted) != sorted.end())
    throw user_error(
        "the chain of shard {} with {} servers and {} addresses, of generation {}, is not possible",
        message.shard(), message.servers_size(), message.addresses_size(), message.generation());
  return chain;
}

uint64_t optional_number(const std::string& text, const char* key) {
  return text.empty() ? 0 : number_of<uint64_t>(text, key);
}

TransferOpening opening_of(const std::function<std::string(const char* key)>& value) {
  return {.member = number_of<uint32_t>(value(kMemberKey), kMemberKey),
          .first_round = number_of<int64_t>(value(kRoundKey), kRoundKey),
          .client = number_of<uint64_t>(value(kClientKey), kClientKey),
          .memory = value(kMemoryKey),
          .payload_checksums = value(kChecksumsKey) != "0",
          .tenure = optional_number(value(kTenureKey), kTenureKey),
          .generation = static_cast<int64_t>(optional_number(value(kGenerationKey), kGenerationKey))};
}

}  // namespace telar
