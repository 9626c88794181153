#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "telar/core/error.h"
#include "telar/io/safetensors.h"

namespace telar {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and is written without conversion");

constexpr size_t kHeaderAlignment = 8;

std::string header_of(std::span<const NamedView> tensors, const Metadata& metadata, const std::string& file) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string> seen;
  uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    if (tensor.name == "__metadata__" || !seen.insert(tensor.name).second) {
      throw user_error(
          "{} cannot hold a tensor named \"{}\": the name {}", file, tensor.name,
          tensor.name == "__metadata__" ? "is reserved by the format" : "is taken by another tensor");
    }
    if (tensor.data.size() != static_cast<size_t>(tensor.shape.elements())) {
      throw run_error("tensor \"{}\" has shape {} but {} elements", tensor.name, tensor.shape.str(),
                      tensor.data.size());
    }
    const uint64_t end = offset + tensor.data.size_bytes();
    // Uses push_back, because looking up a key in an ordered object takes linear time.
    auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
    entries.emplace_back(
        tensor.name, nlohmann::ordered_json{
                         {"dtype", "F32"}, {"shape", tensor.shape.dims()}, {"data_offsets", {offset, end}}});
    offset = end;
  }
  try {
    return header.dump();
  } catch (const nlohmann::json::exception&) {
    throw user_error("{} cannot be written: a tensor's name or a metadata text is not valid UTF-8", file);
  }
}

}  // namespace

void write_safetensors(OutputFile& file, std::span<const NamedView> tensors, const Metadata& metadata) {
  std::string header = header_of(tensors, metadata, file.path().string());
  header.resize((header.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  const uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const auto& tensor : tensors) file.write(std::as_bytes(tensor.data));
}

void write_safetensors(OutputFile& file, std::span<const NamedTensor> tensors, const Metadata& metadata) {
  std::vector<NamedView> views;
  views.reserve(tensors.size());
  for (const auto& tensor : tensors) views.push_back({tensor.name, tensor.shape, tensor.data});
  write_safetensors(file, views, metadata);
}

}  // namespace telar
