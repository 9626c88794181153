#pragma once

namespace telar::test {

/// What stands for a GPU's memory can be touched as long as one of these lives, in any thread: by what a
/// stream was told. The host's own code that reads or writes it dies, as it would where there is a GPU.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

}  // namespace telar::test
