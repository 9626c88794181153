#include <cstddef>
#include <cstdint>
#include <span>

#include "telar/core/error.h"
#include "telar/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    telar::parse_safetensors(std::as_bytes(std::span(data, size)), "input.safetensors");
  } catch (const telar::Error& error) {
    if (error.kind() != telar::Error::Kind::user) throw;
  }
  return 0;
}
