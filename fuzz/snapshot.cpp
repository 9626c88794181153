#include "snapshot_input.h"

// The snapshots that a parameter server reads when it starts: as they are, and with correct checksums.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const std::string& bytes :
       {std::string(data, data + size), telar::fuzz::sealed_snapshot({data, size})}) {
    try {
      telar::fuzz::read_snapshot(bytes);
    } catch (const telar::Error&) {
      // Throwing Error is the correct response to a damaged snapshot.
    }
  }
  return 0;
}
