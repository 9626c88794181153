#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "telar/graph/program.h"

namespace telar {

/// The bytes that each process sends to each other one in a step of a phase in which everything is due, by
/// (from, to); without the headers of messages, and those of a few bytes by which workers agree.
///
/// A sum of n bytes over P processes is one of parts, each by one process, which sends it back: 2n/P bytes to
/// each. (MPI may choose another way; between two processes all of them send n.)
std::map<std::pair<int64_t, int64_t>, double> bytes_on_each_link(const Program& program, size_t phase = 0);

}  // namespace telar
