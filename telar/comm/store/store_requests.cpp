#include "telar/comm/store/store_requests.h"

#include <algorithm>

#include "telar/core/buffer.h"
#include "telar/core/error.h"

namespace telar {
namespace {

/// Requests for a whole arena; `memory` sets where their floats are.
template <typename Memory>
std::vector<StoreRequest> arena_requests(FrameKind kind, const StoreLayout& layout,
                                         const std::vector<std::string>& slots, const std::string& name,
                                         size_t count, const std::string& who, const Memory& memory) {
  if (count != layout.floats)
    throw run_error("{} has arenas of {} floats, not {}", who, layout.floats, count);
  uint16_t arena = 0;
  if (!name.empty()) {
    const auto found = std::ranges::find(slots, name);
    if (found == slots.end()) throw run_error("{} has no arena '{}'", who, name);
    arena = static_cast<uint16_t>(found - slots.begin() + 1);
  }
  std::vector<StoreRequest> requests;
  for_each_block(0, count, [&](size_t begin, size_t end) {
    StoreRequest& request = requests.emplace_back();
    request.header.kind = kind;
    request.header.arena = arena;
    request.header.begin = begin;
    request.header.end = end;
    memory(request, begin, end - begin);
  });
  return requests;
}

void check(const StoreExchange& exchange, const StoreArenas& arenas, const std::string& who) {
  if (!arenas.keeper) throw run_error("{} was given work before attach()", who);
  const size_t floats = arenas.outgoing.size();
  if (exchange.begin >= exchange.end || exchange.end > floats || exchange.begin % kRangeFloats != 0 ||
      exchange.end % kRangeFloats != 0)
    throw run_error(
        "{} holds {} floats; {} to {} is not a range of them that begins and ends at multiples of {}", who,
        floats, exchange.begin, exchange.end, kRangeFloats);
  if (exchange.round &&
      (exchange.round->members.empty() || exchange.round->members.size() > kMostRoundMembers))
    throw run_error("A round has 1 to {} members, not {}", kMostRoundMembers, exchange.round->members.size());
}

}  // namespace

StoreArenas StoreArenas::of(size_t floats) {
  const auto memory = std::make_shared<Buffer>(2 * floats * sizeof(float));
  return {.outgoing = memory->as<float>().first(floats),
          .incoming = memory->as<float>().subspan(floats),
          .keeper = memory};
}

std::vector<StoreRequest> requests_of(const StoreExchange& exchange, const StoreArenas& arenas,
                                      const std::string& who) {
  check(exchange, arenas, who);
  std::vector<StoreRequest> requests;
  if (!exchange.push && !exchange.pull) return requests;
  for_each_block(exchange.begin, exchange.end, [&](size_t begin, size_t end) {
    StoreRequest& request = requests.emplace_back();
    FrameHeader& header = request.header;
    header.begin = begin;
    header.end = end;
    if (exchange.pull) {
      header.flags |= kPull;
      request.into = arenas.incoming.subspan(begin, end - begin);
    }
    if (!exchange.push) return;
    header.flags |= kPush;
    header.learning_rate = exchange.learning_rate;
    header.samples = exchange.samples;
    header.number = static_cast<double>(exchange.work);
    request.from = arenas.outgoing.subspan(begin, end - begin);
    request.keeper = arenas.keeper;
    request.payload = exchange.payload;
    if (!exchange.round) return;
    header.flags |= kRound;
    header.round = exchange.round->number;
    header.members = static_cast<uint32_t>(exchange.round->members.size());
    request.members = exchange.round->members;
  });
  return requests;
}

std::vector<StoreRequest> read_requests(const StoreLayout& layout, const std::vector<std::string>& slots,
                                        const std::string& name, std::span<float> into,
                                        const std::string& who) {
  return arena_requests(
      FrameKind::read, layout, slots, name, into.size(), who,
      [&](StoreRequest& request, size_t begin, size_t count) { request.into = into.subspan(begin, count); });
}

std::vector<StoreRequest> write_requests(const StoreLayout& layout, const std::vector<std::string>& slots,
                                         const std::string& name, std::span<const float> from,
                                         int64_t updates, const std::string& who) {
  return arena_requests(FrameKind::write, layout, slots, name, from.size(), who,
                        [&](StoreRequest& request, size_t begin, size_t count) {
                          request.from = from.subspan(begin, count);
                          request.header.version = updates;
                        });
}

}  // namespace telar
