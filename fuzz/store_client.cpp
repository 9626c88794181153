#include "store_client_input.h"

// What a parameter server sends to its clients: welcomes, answers, pulled floats.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    telar::fuzz::receive_frames({data, size});
  } catch (const telar::Error&) {
    // Throwing Error is the correct response to a bad frame.
  }
  return 0;
}
