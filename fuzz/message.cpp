#include "message_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::read_message({reinterpret_cast<const char*>(data), size});
  return 0;
}
