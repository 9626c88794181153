#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace telar {

/// The most bytes of a text that a person writes: a job, a script, a token, a certificate.
inline constexpr size_t kMostTextBytes = size_t{4} << 20;

/// The contents of a file that a person names, at most kMostTextBytes bytes. Also reads a pipe, such as
/// bash's `<(…)`, and the standard input if `path` is "-". `what`: what the file should be, for messages:
/// "the job". Throws Error (user) for folders and devices, for a pipe that brings nothing for `silence`, and
/// for a larger file.
std::string read_text_file(const std::filesystem::path& path, std::string_view what,
                           std::chrono::milliseconds silence = std::chrono::seconds(10));

}  // namespace telar
