#include "telar/comm/processes.h"

#include <array>

namespace telar {

void Processes::broadcast(std::string& text) {
  std::array<uint64_t, 1> length = {text.size()};
  broadcast(std::as_writable_bytes(std::span(length)));
  text.resize(length[0]);
  broadcast(std::as_writable_bytes(std::span(text)));
}

}  // namespace telar
