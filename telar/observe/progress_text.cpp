#include "telar/observe/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace telar {

std::string grouped(int64_t number) {
  std::string digits = fmt::format("{}", number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t end = digits.size(); end > first + 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  const int64_t hours = whole / 3600;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string behind_text(int64_t samples, std::optional<double> seconds) {
  return grouped(samples) + " behind" + (seconds ? fmt::format(" ({:.1f} s)", *seconds) : "");
}

std::string fit_line(std::vector<LinePart> parts, int width) {
  const auto limit = static_cast<size_t>(std::max(width, 0));
  for (;;) {
    std::string line;
    for (const LinePart& part : parts) line += (line.empty() ? "" : "  ") + part.text;
    if (line.size() <= limit || parts.empty()) return line;
    const auto first_out = std::max_element(
        parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.expendable < b.expendable; });
    if (first_out->expendable == 0) return line.substr(0, limit);
    parts.erase(first_out);
  }
}

std::string bar_text(double fraction, int width) {
  const int inside = std::max(width - 2, 1);
  const int done = std::clamp(static_cast<int>(fraction * inside), 0, inside);
  std::string bar(static_cast<size_t>(inside), ' ');
  std::fill_n(bar.begin(), done, '=');
  if (done < inside) bar[static_cast<size_t>(done)] = '>';
  return "[" + bar + "]";
}

}  // namespace telar
