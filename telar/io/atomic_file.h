#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "telar/io/output_file.h"

namespace telar {

/// What happens to a symbolic link in the place of a file that is to be written. A user may have made the
/// link that an option names; in a folder that telar fills itself, only a stranger or a mistake has.
enum class Links : uint8_t {
  follow,  ///< the link's target is replaced
  refuse   ///< Error (user)
};

/// Throws Error (user) if `path` is a symbolic link.
void refuse_link(const std::filesystem::path& path);

/// A file that appears complete or not at all. The bytes go to "NAME.tmp-PID" in the same folder. commit()
/// syncs this file, renames it to NAME (replacing an older file) and syncs the folder. Until then, and after
/// any error, the older file is untouched. Without commit() the destructor removes the temporary file.
///
///     AtomicFile file(run / "summary.json");
///     file.write(text);
///     file.commit();
///
/// Throws the errors of disk_error() (telar/io/disk.h) when writing fails, with path and free space; Error
/// (user) when `path` exists but is not a file, or when another process is currently writing it.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path, Links links = Links::follow);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view text) { file_.write(text); }
  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  /// For writers that take an OutputFile.
  OutputFile& file() { return file_; }
  void commit();

 private:
  std::filesystem::path path_;
  OutputFile file_;
  bool committed_ = false;
};

/// Replaces the contents of `path` by `text`, through an AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text, Links links = Links::follow);

/// A folder that appears complete or not at all: it is filled as "NAME.tmp-PID" and renamed in commit().
///
///     AtomicFolder folder(checkpoints / "step-000100");
///     { OutputFile weights = folder.create("weights.safetensors"); … }
///     folder.write("state.json", text);
///     folder.commit();
///
/// Throws like AtomicFile, and Error (user) when NAME already exists, unless it `replaces` that.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::filesystem::path& path, bool replaces = false);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// The folder to fill, until commit().
  const std::filesystem::path& path() const { return temporary_; }
  /// Creates a file in the folder. It must be closed before commit(), which syncs it.
  OutputFile create(const std::string& name) const;
  void write(const std::string& name, std::string_view text) const { create(name).write(text); }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool replaces_;
  int lock_ = -1;
  bool committed_ = false;
};

/// Removes from `parent` the temporary files and folders ("NAME.tmp-PID") whose writer was killed, and
/// returns their number. Those still being written are left alone: the writer holds a lock, which other
/// containers see too. If `parent` does not exist, there is nothing to remove.
int remove_leftovers(const std::filesystem::path& parent);

}  // namespace telar
