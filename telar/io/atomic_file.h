#pragma once

#include <filesystem>
#include <string_view>

#include "telar/io/output_file.h"

namespace telar {

/// A file that appears whole or not at all. The bytes go to "NAME.tmp-PID" in the same folder; commit() syncs it,
/// renames it to NAME (replacing an older file) and syncs the folder. Until then, and after any error, the older
/// file is untouched; without commit() the destructor removes the temporary file.
///
///     AtomicFile file(run / "summary.json");
///     file.write(text);
///     file.commit();
///
/// Throws Error (run) for a full disk or any other failure to write, with path and free space; Error (user) when
/// `path` is something else than a file, or when another process is writing it at this moment.
class AtomicFile {
 public:
  /// A symbolic link at `path` is followed: what it points to is replaced.
  explicit AtomicFile(const std::filesystem::path& path);
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

/// Writes `text` as the whole of `path`, through an AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text);

/// A folder that appears whole or not at all: it is filled as "NAME.tmp-PID" and takes its name in commit().
///
///     AtomicFolder folder(checkpoints / "step-000100");
///     { OutputFile weights = folder.create("weights.safetensors"); … }
///     folder.write("state.json", text);
///     folder.commit();
///
/// Throws like AtomicFile, and Error (user) when NAME exists already.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::filesystem::path& path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// The folder to fill, until commit().
  const std::filesystem::path& path() const { return temporary_; }
  /// A new file in it; it must be closed before commit(), which syncs it.
  OutputFile create(const std::string& name) const;
  void write(const std::string& name, std::string_view text) const { create(name).write(text); }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int lock_ = -1;
  bool committed_ = false;
};

/// Removes from `parent` the temporary files and folders ("NAME.tmp-PID") whose writer was killed, and says how
/// many. Those still being written are recognised by the lock that their writer holds, also from another
/// container, and are left alone. A `parent` that does not exist has none.
int remove_leftovers(const std::filesystem::path& parent);

}  // namespace telar
