#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "telar/core/shape.h"
#include "telar/io/output_file.h"

namespace telar {

/// A tensor of a safetensors file, in memory. A scalar has the shape [1].
struct NamedTensor {
  std::string name;
  Shape shape;
  std::vector<float> data;
};

/// The same without ownership of the numbers: the input of a writer.
struct NamedView {
  std::string name;
  Shape shape;
  std::span<const float> data;
};

using Metadata = std::map<std::string, std::string>;

/// One entry of a file's header.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;    ///< in the format's spelling: "F32", "BF16", "I64" …
  Shape shape;          ///< [1] for the format's []
  uint64_t offset = 0;  ///< of its first byte, from the start of the data
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< ordered by offset
  Metadata metadata;
  uint64_t data_start = 0;  ///< offset of the data, from the start of the file
};

/// The safetensors format (https://github.com/huggingface/safetensors): eight bytes with the length N of the
/// header (little-endian), N bytes of JSON
/// {"NAME": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {…}},
/// then the data of all tensors, little-endian, without gaps.
///
/// Reads F32, F16, BF16, F64, I64 and I32, converted to float, or to double if that is asked for. A file may
/// contain tensors of other types as long as they are not read. Everything in a file is checked before it is
/// used; each mistake is an Error (user) that names the file and the tensor.
class SafetensorsFile {
 public:
  /// Reads only the header. Tensors are read one by one, directly to their destination, so a large file is
  /// never in memory twice.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const Metadata& metadata() const { return header_.metadata; }
  bool has(const std::string& name) const { return index_.contains(name); }
  /// Throws Error (user), with the nearest existing name, when there is no such tensor.
  const SafetensorsEntry& entry(const std::string& name) const;

  /// Reads a tensor. `values` must have as many elements as the tensor's shape; otherwise throws Error (run).
  void read(const std::string& name, std::span<float> values) const;
  void read(const std::string& name, std::span<double> values) const;
  NamedTensor read(const std::string& name) const;

 private:
  template <typename Number>
  void read_numbers(const std::string& name, std::span<Number> values) const;
  void read_bytes(uint64_t position, std::span<std::byte> bytes, const std::string& what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  SafetensorsHeader header_;
  std::map<std::string, size_t> index_;
};

/// All tensors of a file, in the order of their bytes.
std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path);

/// A file in memory; `source` is its name in messages.
class SafetensorsBytes {
 public:
  SafetensorsBytes(std::span<const std::byte> file, std::string source);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  /// `values` has as many elements as the tensor's shape.
  void read(const SafetensorsEntry& entry, std::span<float> values) const;
  void read(const SafetensorsEntry& entry, std::span<double> values) const;

 private:
  std::span<const std::byte> bytes_of(const SafetensorsEntry& entry) const;

  std::string source_;
  SafetensorsHeader header_;
  std::span<const std::byte> data_;  ///< behind the header
};

/// All tensors of a file in memory.
std::vector<NamedTensor> parse_safetensors(std::span<const std::byte> file, const std::string& source);

/// A file begins with the length of its header: a little-endian number of this many bytes.
inline constexpr size_t kSafetensorsLengthBytes = 8;

/// Checks and parses the JSON part of a file of `file_bytes` bytes.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> json, uint64_t file_bytes,
                                           const std::string& source);

/// Writes tensors as F32, in the given order. The bytes depend only on the arguments. Throws Error (user) for
/// a name that occurs twice, is "__metadata__" or is not UTF-8; Error (run) when a tensor's data does not
/// match its shape. Failures to write throw as OutputFile does.
void write_safetensors(OutputFile& file, std::span<const NamedView> tensors, const Metadata& metadata = {});
void write_safetensors(OutputFile& file, std::span<const NamedTensor> tensors, const Metadata& metadata = {});

}  // namespace telar
