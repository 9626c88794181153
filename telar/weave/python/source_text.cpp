#include "telar/weave/python/source_text.h"

#include <algorithm>

namespace telar::weave {

namespace {

/// Large enough that restarting the parser costs nothing, small enough that its objects stay in the CPU's
/// cache.
constexpr size_t kPiece = size_t{16} << 10;

bool is_cookie_character(char c) {
  return c == '-' || c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

}  // namespace

std::string declared_encoding(std::string_view bytes) {
  for (int line = 0; line < 2 && !bytes.empty(); ++line) {
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    const std::string_view text = bytes.substr(0, end);
    const size_t first = text.find_first_not_of(" \t\f");
    if (first != std::string_view::npos && text[first] != '#') return {};
    size_t at = first == std::string_view::npos ? first : text.find("coding", first);
    if (at != std::string_view::npos) at += 6;
    if (at < text.size() && (text[at] == ':' || text[at] == '=')) {
      do ++at;
      while (at < text.size() && (text[at] == ' ' || text[at] == '\t'));
      size_t stop = at;
      while (stop < text.size() && is_cookie_character(text[stop])) ++stop;
      if (stop > at) return std::string(text.substr(at, stop - at));
    }
    bytes.remove_prefix(end);
    if (bytes.starts_with("\r\n")) bytes.remove_prefix(1);
    if (!bytes.empty()) bytes.remove_prefix(1);
  }
  return {};
}

bool is_utf8(std::string name) {
  for (char& c : name) c = c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return name == "utf-8" || name == "utf8" || name == "utf-8-sig" || name.starts_with("utf-8-");
}

std::vector<std::string_view> pieces(std::string_view text) {
  std::vector<std::string_view> found;
  bool decorated = false;
  for (size_t line = 0; line < text.size();) {
    const std::string_view rest = text.substr(line);
    const bool defines = rest.starts_with("class ") || rest.starts_with("def ") || rest.starts_with('@');
    if (line > kPiece && defines && !decorated) {
      found.push_back(text.substr(0, line));
      text.remove_prefix(line);
      line = 0;
    }
    decorated = rest.starts_with('@');
    const size_t end = rest.find('\n');
    line = end == std::string_view::npos ? text.size() : line + end + 1;
  }
  found.push_back(text);
  return found;
}

}  // namespace telar::weave
