#include "telar/data/arrays/cifar.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto labels = static_cast<telar::CifarLabels>(data[0] % 3);
  const auto files = telar::fuzz::two_files(data + 1, size - 1);
  telar::fuzz::read_ends([&] {
    return telar::cifar_from_bytes({files.first, files.second}, {"one", "two"}, labels);
  });
  telar::fuzz::read_ends([&] { return telar::cifar_from_bytes({{data + 1, data + size}}, {"one"}, labels); });
  return 0;
}
