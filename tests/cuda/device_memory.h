#pragma once

namespace telar::test {

/// While one of these objects lives, any thread may access the memory of a fake GPU: streams do their work
/// under it. At other times, host code that reads or writes this memory crashes, as it would with a real GPU.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

}  // namespace telar::test
