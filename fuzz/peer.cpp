#include "peer_input.h"

// What the processes of a group send each other, and what the first one tells those that join.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::serve_peer({data, size});
  try {
    telar::fuzz::introduced({data, size});
  } catch (const telar::Error&) {
    // Throwing Error is the correct response to bad bytes.
  }
  return 0;
}
