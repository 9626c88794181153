#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace telar {

/// "1,234,567".
std::string grouped(int64_t number);

/// "0:07", "12:34", "2:05:09".
std::string duration_text(double seconds);

/// "1,234 behind (2.1 s)": samples of a stream that are waiting, and in which time they would be used.
std::string behind_text(int64_t samples, std::optional<double> seconds);

/// A part of a progress line. In a line that is too long, parts with larger `expendable` are omitted first
/// (0: never).
struct LinePart {
  std::string text;
  int expendable = 0;
};

/// Joins the parts with two spaces. Omits the most expendable parts until the line fits `width` characters,
/// then cuts the line if necessary.
std::string fit_line(std::vector<LinePart> parts, int width);

/// "[=======>      ]", `width` characters in total.
std::string bar_text(double fraction, int width);

}  // namespace telar
