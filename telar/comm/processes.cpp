#include "telar/comm/processes.h"

#include <array>

#include "telar/core/error.h"

namespace telar {

void Processes::broadcast(std::string& text, int from) {
  std::array<uint64_t, 1> length = {text.size()};
  broadcast(std::as_writable_bytes(std::span(length)), from);
  text.resize(length[0]);
  broadcast(std::as_writable_bytes(std::span(text)), from);
}

bool Processes::any(bool value) { return lowest(value ? 0 : 1) == 0; }

std::string Processes::first_text(std::string text) {
  const int first = lowest(text.empty() ? size() : rank());
  if (first < size()) broadcast(text, first);
  return text;
}

std::vector<std::string> Processes::gather(const std::string& text) {
  std::vector<std::string> texts(static_cast<size_t>(size()), text);
  for (int from = 0; from < size(); ++from) broadcast(texts[static_cast<size_t>(from)], from);
  return texts;
}

void Processes::require_same(const std::string& text, const std::string& what) {
  std::string first = text;
  broadcast(first);
  const int different = lowest(first == text ? size() : rank());
  if (different < size()) throw user_error("rank {} differs from rank 0 in {}", different, what);
}

}  // namespace telar
