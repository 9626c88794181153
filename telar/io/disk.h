#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "telar/core/error.h"

namespace telar {

/// Bytes that this user may still write on the file system of `path`, or of its nearest existing parent.
/// Empty when the system does not report them.
std::optional<uint64_t> free_disk_bytes(const std::filesystem::path& path);

/// "1.5 GiB", "312 KiB", "17 bytes": a size for messages.
std::string bytes_text(uint64_t bytes);

/// Throws Error (user) if `path` is an address, such as s3://bucket/run, which the system takes for a
/// file in a folder named "s3:", or begins with "~/", which it takes for a folder named "~".
void require_local(const std::filesystem::path& path);

/// Makes a folder and its parents, unless it exists. Throws Error (user), also for an address.
void make_folder(const std::filesystem::path& path);

/// Error for a system call on a file that failed with errno `code`: "cannot write PATH: No space left on
/// device (0 bytes free on that disk)". Error (user), because the user can fix it (space, permissions,
/// another path); Error (run) when the device itself failed (EIO).
Error disk_error(std::string_view action, const std::filesystem::path& path, int code);

}  // namespace telar
