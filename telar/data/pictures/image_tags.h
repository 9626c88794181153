#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace telar {

/// The value of a tag in the first directory of a TIFF or BigTIFF file, which EXIF data are, too. None: there
/// is no such tag, or it is behind the end.
std::optional<uint32_t> tiff_tag(std::span<const uint8_t> file, uint32_t tag);

}  // namespace telar
