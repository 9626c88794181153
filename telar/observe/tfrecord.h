#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace telar {

/// CRC-32C (Castagnoli), as in RFC 3720, appendix B.4.
uint32_t crc32c(std::string_view bytes);

/// Encodes one record of a TFRecord file: length (8 bytes), masked CRC of the length (4), data, masked CRC of
/// the data (4), all little-endian. CRCs are masked (rotated, plus a constant), so that data that contains
/// CRCs is safe.
std::string tfrecord(std::string_view data);

}  // namespace telar
