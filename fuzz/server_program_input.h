#pragma once

#include "run_files_input.h"
#include "telar/io/server_program.h"
#include "telar/runtime/server_update.h"
#include "telar/runtime/stored_pieces.h"

// The part of fuzz/server_program.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// Reads a program as a server does, and compiles it for pieces of at most 64 KB. Returns whether it is
/// accepted.
inline bool read_server_program(std::span<const uint8_t> input) {
  constexpr size_t kMostFloats = 1 << 14;
  return read_and_write(
      input,
      [](const std::string& text) {
        ServerProgram program = server_program_from_json(text, "the program");
        const StoreLayout layout = stored_layout(program.pieces);
        if (layout.floats <= kMostFloats && !program_updates()(text, layout)->difference(text).empty())
          throw std::logic_error("the program differs from itself");
        return program;
      },
      [](const ServerProgram& program) { return to_json(program); });
}

}  // namespace telar::fuzz
