#include <vector>

#include "fuzz.h"
#include "telar/comm/store/store_frame.h"

// A frame as a parameter server reads it from the network, in two pieces as the network may cut it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const telar::fuzz::TwoFiles halves = telar::fuzz::two_files(data, size);
  const std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(halves.first)),
                                                      std::as_bytes(std::span(halves.second))};
  try {
    const telar::Frame frame = telar::parse_frame(parts);
    if (frame.header.kind == telar::FrameKind::welcome) return 0;
    std::vector<float> floats(frame.header.end - frame.header.begin);
    if (frame.payload.bytes() > 0) frame.payload.floats(floats);
  } catch (const telar::Error&) {
    // A sentence is the right answer to a bad frame.
  }
  return 0;
}
