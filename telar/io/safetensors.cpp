#include "telar/io/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/io/safetensors_dtype.h"

namespace telar {
namespace {

// The limit of the reference implementation; a header takes about 100 bytes per tensor.
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr size_t kChunk = size_t{1} << 20;

/// Length of the header, from the first bytes of a file; checked against the file's size.
uint64_t header_length(std::span<const std::byte> start, uint64_t file_bytes, const std::string& source) {
  if (start.size() < kSafetensorsLengthBytes) {
    throw user_error("{} is not a safetensors file: it has {} bytes", source, start.size());
  }
  uint64_t length = 0;
  std::memcpy(&length, start.data(), kSafetensorsLengthBytes);
  if (length > kLongestHeader || length > file_bytes - kSafetensorsLengthBytes) {
    throw user_error(
        "{} is not a safetensors file, or it is truncated: it announces a header of {} bytes, but the file has {} (and the longest header is {})",
        source, length, file_bytes, kLongestHeader);
  }
  return length;
}

void check_readable(const SafetensorsEntry& entry, const std::string& source) {
  if (!safetensors_decodes(entry.dtype)) {
    throw user_error("tensor \"{}\" of {} has type {}; F32, F16, BF16, F64, I64 and I32 can be read",
                     entry.name, source, entry.dtype);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  const std::string source = path.string();
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw user_error("cannot open {}: {}", source, std::generic_category().message(errno));
  try {
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      throw user_error("{} is not a file", source);
    }
    const auto file_bytes = static_cast<uint64_t>(status.st_size);
    std::array<std::byte, kSafetensorsLengthBytes> start{};
    const auto available = std::span(start).first(std::min(file_bytes, kSafetensorsLengthBytes));
    read_bytes(0, available, "the header");
    std::vector<std::byte> json(header_length(available, file_bytes, source));
    read_bytes(kSafetensorsLengthBytes, json, "the header");
    header_ = parse_safetensors_header(json, file_bytes, source);
    for (size_t i = 0; i < header_.entries.size(); ++i) index_[header_.entries[i].name] = i;
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::close(descriptor_); }

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  if (const auto found = index_.find(name); found != index_.end()) return header_.entries[found->second];
  std::vector<std::string> names;
  for (const auto& [known, index] : index_) names.push_back(known);
  const std::string near = nearest(name, names);
  throw user_error("{} has no tensor \"{}\"{}", path_.string(), name,
                   near.empty() ? "" : "; the nearest is \"" + near + "\"");
}

void SafetensorsFile::read_bytes(uint64_t position, std::span<std::byte> bytes,
                                 const std::string& what) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw run_error("cannot read {} of {}: {}", what, path_.string(),
                      std::generic_category().message(errno));
    }
    if (got == 0) {
      throw run_error("{} became shorter while {} was being read; is another program writing it?",
                      path_.string(), what);
    }
    bytes = bytes.subspan(static_cast<size_t>(got));
    position += static_cast<uint64_t>(got);
  }
}

template <typename Number>
void SafetensorsFile::read_numbers(const std::string& name, std::span<Number> values) const {
  const SafetensorsEntry& tensor = entry(name);
  check_readable(tensor, path_.string());
  if (values.size() != static_cast<size_t>(tensor.shape.elements())) {
    throw run_error("tensor \"{}\" of {} has shape {}; {} elements were expected", name, path_.string(),
                    tensor.shape.str(), values.size());
  }
  const std::string what = "tensor \"" + name + "\"";
  const uint64_t position = header_.data_start + tensor.offset;
  const std::string_view plain = std::is_same_v<Number, float> ? "F32" : "F64";
  if (tensor.dtype == plain) return read_bytes(position, std::as_writable_bytes(values), what);

  const size_t element = safetensors_element_bytes(tensor.dtype);
  std::vector<std::byte> raw(std::min<size_t>(tensor.bytes, kChunk));
  for (size_t done = 0; done < values.size();) {
    const size_t count = std::min(values.size() - done, raw.size() / element);
    const auto part = std::span(raw).first(count * element);
    read_bytes(position + done * element, part, what);
    decode_safetensors(tensor.dtype, part, values.subspan(done, count));
    done += count;
  }
}

void SafetensorsFile::read(const std::string& name, std::span<float> values) const {
  read_numbers(name, values);
}

void SafetensorsFile::read(const std::string& name, std::span<double> values) const {
  read_numbers(name, values);
}

NamedTensor SafetensorsFile::read(const std::string& name) const {
  const SafetensorsEntry& tensor = entry(name);
  check_readable(tensor, path_.string());
  NamedTensor result{name, tensor.shape, std::vector<float>(static_cast<size_t>(tensor.shape.elements()))};
  read(name, result.data);
  return result;
}

std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<NamedTensor> tensors;
  for (const auto& entry : file.entries()) tensors.push_back(file.read(entry.name));
  return tensors;
}

SafetensorsBytes::SafetensorsBytes(std::span<const std::byte> file, std::string source)
    : source_(std::move(source)) {
  const uint64_t length =
      header_length(file.first(std::min<size_t>(file.size(), kSafetensorsLengthBytes)), file.size(), source_);
  header_ = parse_safetensors_header(file.subspan(kSafetensorsLengthBytes, length), file.size(), source_);
  data_ = file.subspan(header_.data_start);
}

std::span<const std::byte> SafetensorsBytes::bytes_of(const SafetensorsEntry& entry) const {
  check_readable(entry, source_);
  return data_.subspan(entry.offset, entry.bytes);
}

void SafetensorsBytes::read(const SafetensorsEntry& entry, std::span<float> values) const {
  decode_safetensors(entry.dtype, bytes_of(entry), values);
}

void SafetensorsBytes::read(const SafetensorsEntry& entry, std::span<double> values) const {
  decode_safetensors(entry.dtype, bytes_of(entry), values);
}

std::vector<NamedTensor> parse_safetensors(std::span<const std::byte> file, const std::string& source) {
  const SafetensorsBytes tensors(file, source);
  std::vector<NamedTensor> all;
  for (const auto& entry : tensors.entries()) {
    all.push_back({entry.name, entry.shape, std::vector<float>(static_cast<size_t>(entry.shape.elements()))});
    tensors.read(entry, all.back().data);
  }
  return all;
}

}  // namespace telar
