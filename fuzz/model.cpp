#include "model_input.h"

// The text in the metadata of a model file, whose checksum the target takes as right.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::read_model({data, size});
  return 0;
}
