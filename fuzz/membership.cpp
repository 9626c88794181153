#include "membership_input.h"

// Messages of a coordinator to a member.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    telar::fuzz::take_replies({data, size});
  } catch (const telar::Error&) {
    // Throwing Error is the correct response to a bad message.
  }
  return 0;
}
