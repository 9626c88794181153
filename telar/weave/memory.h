#pragma once

#include <cstddef>

namespace telar::weave {

/// Makes the heap ready for the trees of a script of so many bytes: it grows once, in huge pages. A large script's trees, and what
/// is known of them, take 70 to 80 bytes for each of its own, and page faults took a sixth of the time. Does nothing for a small
/// one.
void make_room(size_t source_bytes);

}  // namespace telar::weave
