#include "server_program_input.h"

// The program of a parameter server: the coordinator sends it, and snapshots contain it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::read_server_program({data, size});
  return 0;
}
