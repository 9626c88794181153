#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "telar/core/error.h"
#include "telar/io/safetensors.h"
#include "telar/io/safetensors_dtype.h"

namespace telar {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 3;  // {"NAME": {"shape": [ … ]}}

/// A name or value from a file, made fit for a message: short, and without control characters.
std::string shown(const std::string& text) {
  constexpr size_t kLongest = 100;
  std::string safe = text.substr(0, kLongest);
  for (char& c : safe) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text.size() > kLongest ? safe + "…" : safe;
}

/// Parses the header and refuses duplicate keys. JSON libraries keep the last of two equal keys, which would
/// hide a tensor.
Json parse_json(std::span<const std::byte> json, const std::string& source) {
  std::vector<std::set<std::string>> keys(kDeepest + 1);
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (depth >= kDeepest) {
        throw user_error("{} is damaged: its safetensors header is nested too deeply", source);
      }
      keys[static_cast<size_t>(depth) + 1].clear();
    }
    if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys[static_cast<size_t>(depth)].insert(key).second) {
        throw user_error("{} is damaged: \"{}\" occurs twice in its safetensors header", source, shown(key));
      }
    }
    return true;
  };
  try {
    const auto* begin = reinterpret_cast<const char*>(json.data());
    return Json::parse(begin, begin + json.size(), check);
  } catch (const Json::exception&) {
    throw user_error("{} is not a safetensors file, or it is damaged: its header is not valid JSON", source);
  }
}

class EntryReader {
 public:
  EntryReader(const std::string& source, const std::string& name, const Json& fields, uint64_t data_bytes)
      : source_(source), name_(name), fields_(fields), data_bytes_(data_bytes) {}

  SafetensorsEntry read() const {
    if (!fields_.is_object() || fields_.size() != 3) {
      throw wrong("its entry must have exactly the fields dtype, shape and data_offsets");
    }
    SafetensorsEntry entry{name_, dtype(), {}, 0, 0};
    const auto dims = numbers("shape");
    const uint64_t wanted = bytes_of(dims, safetensors_element_bytes(entry.dtype));
    // A scalar is [] in the format and [1] here.
    entry.shape = dims.empty() ? Shape{1} : Shape(dims);

    const auto offsets = numbers("data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) throw wrong("data_offsets must be [begin, end]");
    if (static_cast<uint64_t>(offsets[1]) > data_bytes_) {
      throw wrong(
          fmt::format("its bytes {} to {} are beyond the {} bytes of data in the file; is it truncated?",
                      offsets[0], offsets[1], data_bytes_));
    }
    entry.offset = static_cast<uint64_t>(offsets[0]);
    entry.bytes = static_cast<uint64_t>(offsets[1] - offsets[0]);
    if (entry.bytes != wanted) {
      throw wrong(fmt::format("{} {} needs {} bytes, but data_offsets specify {}", entry.dtype,
                              entry.shape.str(), wanted, entry.bytes));
    }
    return entry;
  }

 private:
  Error wrong(const std::string& what) const {
    return user_error("{} is damaged: tensor \"{}\": {}", source_, shown(name_), what);
  }

  std::string dtype() const {
    const auto found = fields_.find("dtype");
    if (found == fields_.end() || !found->is_string()) throw wrong("it has no dtype");
    auto name = found->get<std::string>();
    if (safetensors_element_bytes(name) == 0) {
      throw wrong(fmt::format("\"{}\" is not a dtype of the format", shown(name)));
    }
    return name;
  }

  std::vector<int64_t> numbers(const char* field) const {
    const auto found = fields_.find(field);
    if (found == fields_.end() || !found->is_array()) throw wrong(fmt::format("{} must be a list", field));
    std::vector<int64_t> list;
    for (const auto& number : *found) {
      if (!number.is_number_unsigned()) {
        throw wrong(fmt::format("{} must hold whole numbers, not negative", field));
      }
      if (number.get<uint64_t>() > INT64_MAX) {
        throw wrong(fmt::format("{} has {}, which exceeds any file", field, number.get<uint64_t>()));
      }
      list.push_back(number.get<int64_t>());
    }
    return list;
  }

  uint64_t bytes_of(std::vector<int64_t> dims, size_t element_bytes) const {
    dims.push_back(static_cast<int64_t>(element_bytes));
    const auto bytes = product_within_int64(dims);
    if (!bytes) throw wrong("its shape has more elements than any file can hold");
    return static_cast<uint64_t>(*bytes);
  }

  const std::string& source_;
  const std::string& name_;
  const Json& fields_;
  uint64_t data_bytes_;
};

Metadata read_metadata(const Json& fields, const std::string& source) {
  if (!fields.is_object()) throw user_error("{} is damaged: __metadata__ must be a map of texts", source);
  Metadata metadata;
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_string()) {
      throw user_error("{} is damaged: \"{}\" in __metadata__ must be a text", source, shown(key));
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// The tensors must fill the data without overlaps and gaps: bytes that belong to no tensor could hide
/// anything.
void check_layout(const std::vector<SafetensorsEntry>& entries, uint64_t data_bytes,
                  const std::string& source) {
  uint64_t end = 0;
  for (const auto& entry : entries) {
    if (entry.offset != end) {
      throw user_error(
          "{} is damaged: tensor \"{}\" starts at byte {} of the data, {} the tensor before it, which ends at {}",
          source, shown(entry.name), entry.offset, entry.offset < end ? "overlapping" : "leaving a gap after",
          end);
    }
    end += entry.bytes;
  }
  if (end != data_bytes) {
    throw user_error("{} is damaged: {} bytes follow its last tensor", source, data_bytes - end);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> json, uint64_t file_bytes,
                                           const std::string& source) {
  SafetensorsHeader header;
  header.data_start = kSafetensorsLengthBytes + json.size();
  if (header.data_start > file_bytes)
    throw user_error("{} is truncated inside its safetensors header", source);
  const uint64_t data_bytes = file_bytes - header.data_start;
  const Json root = parse_json(json, source);
  if (!root.is_object())
    throw user_error("{} is damaged: its safetensors header is not a JSON object", source);
  for (const auto& [name, fields] : root.items()) {
    if (name == "__metadata__") {
      header.metadata = read_metadata(fields, source);
    } else {
      header.entries.push_back(EntryReader(source, name, fields, data_bytes).read());
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  check_layout(header.entries, data_bytes, source);
  return header;
}

}  // namespace telar
