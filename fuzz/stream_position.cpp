#include "telar/data/streams/stream_position.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const telar::Position position{{reinterpret_cast<const char*>(data), size}};
  try {
    const telar::StreamPosition place = telar::stream_position(position, "t", {0, 0});
    const telar::Position again = telar::to_position(place, "t");
    const bool longer =
        again.bytes.size() > position.bytes.size();  // of fewer partitions, or without checksums
    if (!longer && again != position) __builtin_trap();
  } catch (const telar::Error&) {
    return 0;
  }
  return 0;
}
