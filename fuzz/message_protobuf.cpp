#include "message_protobuf_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::read_protobuf({reinterpret_cast<const char*>(data), size});
  return 0;
}
