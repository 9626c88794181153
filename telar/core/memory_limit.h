#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "telar/core/error.h"

namespace telar {

/// A limit of this process's memory that ulimit sets.
struct MemoryLimit {
  uint64_t bytes = 0;
  std::string name;  ///< "ulimit -v"
};

/// The lowest of them; empty: there is none.
std::optional<MemoryLimit> memory_limit();

/// The error (run) of a process that gets no more memory: it names the limit. `wanted`: what there was none
/// for, "42.7 MiB wanted"; may be empty.
Error out_of_memory(const std::string& wanted);

/// What an exception says to a user: one that the system throws when it gives no memory or no thread becomes
/// an Error (run) that names the limit.
Error as_error(const std::exception& error);

/// Throws out_of_memory() if this process cannot get so many bytes, which it does not keep. Libraries that do
/// not check what they get would crash.
void require_free_memory(size_t bytes);

}  // namespace telar
