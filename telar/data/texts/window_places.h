#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace telar {

struct WindowOptions {
  int64_t length = 128;  ///< tokens of a window
  int64_t stride = 128;  ///< from the beginning of a window to that of the next one
};

/// Where the windows of several texts are, each within one text and with a token after it.
class WindowPlaces {
 public:
  /// `tokens`: of each text. Throws Error (user) if there is no window. `path`: of the texts, and `unit`: of
  /// their tokens ("bytes"), for messages.
  WindowPlaces(const std::string& path, const char* unit, const std::vector<int64_t>& tokens,
               const WindowOptions& options);

  struct Place {
    size_t text = 0;
    int64_t begin = 0;  ///< its first token, in the text
  };
  Place at(int64_t window) const;
  int64_t count() const { return ends_.back(); }
  const WindowOptions& options() const { return options_; }
  /// Texts in which there is no window.
  int64_t texts_without() const;

 private:
  WindowOptions options_;
  std::vector<int64_t> ends_;  ///< of each text, the number of windows up to its end
};

}  // namespace telar
