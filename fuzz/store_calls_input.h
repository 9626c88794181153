#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>

#include "telar/comm/store/store_calls.h"
#include "telar/core/error.h"

// The part of fuzz/store_calls.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// Throws std::logic_error if the offsets of a layout do not increase within its floats, or if the layout is
/// another one after a transfer.
inline void check_layout(const StoreLayout& layout) {
  size_t next = 0;
  for (size_t i = 0; i < layout.pieces.size(); ++i) {
    if (layout.offsets[i] != next || layout.pieces[i].floats > layout.floats - next)
      throw std::logic_error("pieces overlap");
    next = i + 1 < layout.pieces.size() ? layout.offsets[i + 1] : layout.floats;
    if (next < layout.offsets[i] + layout.pieces[i].floats) throw std::logic_error("a piece is too short");
  }
  StoredPieces pieces;
  add_pieces(layout, pieces);
  if (layout_of(pieces) != layout) throw std::logic_error("another layout after a transfer");
}

/// The texts of an opening's keys, in this order, separated by line ends.
inline TransferOpening open_stream(const std::string& text) {
  std::map<std::string, std::string> values;
  size_t begin = 0;
  for (const char* key :
       {kMemberKey, kRoundKey, kClientKey, kMemoryKey, kChecksumsKey, kTenureKey, kGenerationKey}) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    values[key] = text.substr(begin, end - begin);
    begin = std::min(end + 1, text.size());
  }
  return opening_of([&](const char* key) { return values.at(key); });
}

/// The first byte selects the message: the request to create arenas, a chain, the description of arenas that
/// exist, or the opening of a stream. Returns an empty text, or why it is refused.
inline std::string call_store(std::span<const uint8_t> input) {
  if (input.empty()) return "empty";
  const std::string bytes(input.begin() + 1, input.end());
  try {
    switch (input[0]) {
      case 'c': {
        store::CreateRequest request;
        // Bytes that are not a message never reach the server: gRPC refuses the call.
        if (!request.ParseFromString(bytes)) return "no message";
        check_layout(identity_of(request).layout);
        break;
      }
      case 'g': {
        store::Chain chain;
        if (!chain.ParseFromString(bytes)) return "no message";
        if (chain_of(chain).chain.servers.empty()) throw std::logic_error("a chain without servers");
        break;
      }
      case 'd': {
        store::DescribeReply reply;
        if (!reply.ParseFromString(bytes)) return "no message";
        check_layout(layout_of(reply.pieces()));
        break;
      }
      case 'o': open_stream(bytes); break;
      default: return "no such call";
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace telar::fuzz
