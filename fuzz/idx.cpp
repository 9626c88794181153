#include "telar/data/arrays/idx.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto files = telar::fuzz::two_files(data, size);
  telar::fuzz::read_ends([&] {
    return telar::idx_from_bytes(std::move(files.first), std::move(files.second), 10, "images", "labels");
  });
  return 0;
}
