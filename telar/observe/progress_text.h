#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace telar {

/// "1,234,567".
std::string grouped(int64_t number);

/// "0:07", "12:34", "2:05:09".
std::string duration_text(double seconds);

/// A part of a progress line, and how soon it is left out when the line is too long (0: never).
struct LinePart {
  std::string text;
  int expendable = 0;
};

/// The parts with two spaces between; the most expendable are left out until the line fits `width` characters, and
/// the rest is cut there.
std::string fit_line(std::vector<LinePart> parts, int width);

/// "[=======>      ]" of `width` characters in all.
std::string bar_text(double fraction, int width);

}  // namespace telar
