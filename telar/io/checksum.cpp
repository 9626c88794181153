#include "telar/io/checksum.h"

// The functions of this header choose SSE2, AVX2 or AVX-512 when they run.
#define XXH_STATIC_LINKING_ONLY  // the size of the state
#include <xxh_x86dispatch.h>

#include <new>

namespace telar {
namespace {

XXH3_state_t& state_of(std::array<std::byte, 576>& bytes) {
  return *std::launder(reinterpret_cast<XXH3_state_t*>(bytes.data()));
}

}  // namespace

Checksum::Checksum() {
  static_assert(sizeof(XXH3_state_t) <= sizeof(state_) && alignof(XXH3_state_t) <= alignof(Checksum));
  XXH3_64bits_reset(::new (state_.data()) XXH3_state_t);
}

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_of(state_), bytes.data(), bytes.size());
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(std::launder(reinterpret_cast<const XXH3_state_t*>(state_.data())));
}

}  // namespace telar
