#include "store_input.h"

// The frames of a member as a parameter server reads them from the network and carries them out.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    telar::fuzz::serve_frames({data, size});
  } catch (const telar::Error&) {
    // A sentence is the right answer to a bad frame.
  }
  return 0;
}
