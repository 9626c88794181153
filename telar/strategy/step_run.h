#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/graph/program.h"

namespace telar {

/// "worker 3 (data 1, model 1)"
std::string worker_text(const Mesh& mesh, int64_t worker);

/// Runs a step of a phase of some workers, whose groups are those of the program without the other workers,
/// without computing anything. Throws Error (run) if members of a group make other exchanges or in another
/// order, or if a worker waits for ever.
void run_symbolically(const Program& program, const std::vector<int64_t>& workers, size_t phase = 0);

}  // namespace telar
