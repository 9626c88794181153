#include "telar/data/open_files.h"

#include <cerrno>
#include <utility>

namespace telar {

OpenFiles::OpenFiles(std::vector<std::string> paths, size_t most)
    : paths_(std::move(paths)), most_(most), files_(paths_.size()) {}

void OpenFiles::read(size_t file, uint64_t offset, std::span<std::byte> bytes) const {
  const std::string& path = paths_[file];
  const size_t got = opened(file)->read(path, offset, bytes);
  if (got < bytes.size())
    throw run_error("{}: has no byte {}, but was longer when the samples were counted", path, offset + got);
}

std::shared_ptr<const OpenFile> OpenFiles::opened(size_t file) const {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<const OpenFile>& place = files_[file];
  if (place != nullptr) return place;
  if (order_.size() == most_) {
    files_[order_.front()].reset();  // whoever reads it now still has it
    order_.pop_front();
  }
  auto opening = std::make_shared<const OpenFile>(paths_[file]);
  if (opening->descriptor() < 0) throw listed_file_error(paths_[file], errno);
  order_.push_back(file);
  return place = std::move(opening);
}

}  // namespace telar
