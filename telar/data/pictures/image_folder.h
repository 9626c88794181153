#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "telar/data/dataset.h"
#include "telar/data/pictures/image.h"
#include "telar/data/readable.h"

namespace telar {

/// A picture of an image folder.
struct PictureFile {
  std::string path;
  int32_t label = 0;
  uint64_t bytes = 0;
};

/// The pictures of an image folder, sorted by path.
struct PictureList {
  std::vector<std::string> classes;  ///< the names of the folders
  std::vector<PictureFile> files;
};
using PictureListPtr = std::shared_ptr<const PictureList>;

struct PictureListing {
  /// Also reads the header of each file. Without it, only its size is read.
  bool check_headers = true;
  ReadCheck reading = {};  ///< threads and progress
};

/// Lists the pictures (is_picture()) in one sub-folder per class. Classes are numbered in the order of
/// the folders' names, samples in the order of their paths. Hidden files and files with other extensions are
/// skipped. Throws Error (user): no such folder, no class folders, a class without pictures, and if headers
/// are checked, a file that is empty, no picture, or has a header that is damaged (the first one is named,
/// all are counted); Error (run): a file cannot be opened or read.
PictureListPtr list_pictures(const std::string& folder, const PictureListing& options = {});

struct ImageFolderOptions {
  int64_t height = 224;  ///< every picture is resized to this; its aspect ratio is not kept
  int64_t width = 224;
  int64_t channels = 3;  ///< 3 RGB, 1 grey
  int64_t rules = kNewestRules;
  bool upright = true;  ///< turned as EXIF says
};

/// The pictures of a list as samples; the format of each is recognised by its content.
/// features: [channels, height, width] f32 in 0 … 1, decoded when read (wrap the dataset in `cached`). Throws
/// Error (user) for options out of range. read() throws Error (user) for a damaged picture, and Error (run)
/// if its file cannot be opened or read.
DatasetPtr open_pictures(PictureListPtr list, const ImageFolderOptions& options);

/// The files and folders in a folder that are not hidden, sorted.
std::vector<std::filesystem::directory_entry> visible_entries(const std::filesystem::path& folder);

/// ".jpg, .jpeg, .png, .webp, .gif, .bmp, .tif or .tiff".
std::string picture_endings();
/// Whether list_pictures() lists a file of this name: one with such an ending, in any case.
bool is_picture(const std::filesystem::path& path);

/// What list_pictures() does not list.
struct IgnoredFiles {
  std::map<std::string, int64_t> kinds;  ///< files and folders by extension: {".heic", 12}
  std::vector<std::string> links;        ///< those that lead to nothing
};

/// Files beside the folders of the classes and folders inside them count, too; hidden ones do not. Throws
/// Error (user) if a folder cannot be read.
IgnoredFiles ignored_files(const std::string& folder);

/// "2 links lead to nothing (photos/cat/7.jpg, …)"; empty if there are none.
std::string dangling_text(const std::vector<std::string>& links);

}  // namespace telar
