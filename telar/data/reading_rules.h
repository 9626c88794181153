#pragma once

#include <cstdint>

namespace telar {

/// The versions of the rules by which samples are read. A run records its own (samples.json), and is resumed,
/// tested and predicts by it, because its weights fit these numbers.
/// 1: grey came from PNG files in linear light, alpha was blended with black, gAMA counted, EXIF orientation
/// did not, and some lost data of JPEG files were accepted; numbers were f32 from the file on.
inline constexpr int64_t kFirstRules = 1;
/// 2: the pixels of all formats follow one rule (docs/job.md), and numbers of tables and f64 arrays are f64
/// until they are normalised.
/// 3: numbers of messages and of F64 tensors are f64, too, until they are normalised.
inline constexpr int64_t kWideMessageRules = 3;
/// 4: of samples in one folder for each class, data.limit takes some of each class.
inline constexpr int64_t kEvenLimitRules = 4;
inline constexpr int64_t kNewestRules = 4;

}  // namespace telar
