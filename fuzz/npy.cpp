#include "telar/data/arrays/npy.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int64_t classes = data[0] % 4;
  auto files = telar::fuzz::two_files(data + 1, size - 1);
  telar::fuzz::read_ends([&] {
    return telar::npy_from_bytes(std::move(files.first), files.second, classes, "features", "labels");
  });
  return 0;
}
