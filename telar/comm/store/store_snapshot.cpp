#include "telar/comm/store/store_snapshot.h"

#include <nlohmann/json.hpp>

#include "telar/io/atomic_file.h"

namespace telar {
namespace {

constexpr std::string_view kMagic = "TELARSTORE 1\n";
constexpr std::string_view kEnd = "END\n";
constexpr char kName[] = "store.snapshot";
constexpr uint64_t kLongestText = uint64_t{1} << 30;

static_assert(sizeof(StoreSegment) == 4 * sizeof(uint64_t));

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

void save_snapshot(const std::string& folder, const StoreIdentity& identity, StoreBlocks& blocks) {
  nlohmann::json pieces = nlohmann::json::array();
  for (const StoredPiece& piece : identity.layout.pieces) pieces.push_back({piece.name, piece.floats});
  const std::string text = nlohmann::json{
      {"job", identity.job},
      {"description", identity.description},
      {"pieces", pieces},
      {"slots",
       blocks.slots()}}.dump();
  std::filesystem::create_directories(folder);
  AtomicFile file(std::filesystem::path(folder) / kName);
  file.write(kMagic);
  const uint64_t length = text.size();
  file.write(bytes_of(length));
  file.write(text);

  Buffer copy(blocks.arenas() * kBlockFloats * sizeof(float));
  for (size_t block = 0; block < blocks.blocks(); ++block) {
    const StoreBlocks::Copied copied = blocks.copy(block, copy.as<float>());
    const uint64_t count = copied.segments.size();
    file.write(bytes_of(count));
    file.write(std::as_bytes(std::span(copied.segments)));
    file.write(std::as_bytes(copied.floats));
  }
  file.write(kEnd);
  file.commit();
}

std::unique_ptr<StoreSnapshot> StoreSnapshot::open(const std::string& folder) {
  remove_leftovers(folder);
  const std::filesystem::path path = std::filesystem::path(folder) / kName;
  if (!std::filesystem::exists(path)) return nullptr;
  return std::make_unique<StoreSnapshot>(path);
}

StoreSnapshot::StoreSnapshot(const std::filesystem::path& path)
    : path_(path), file_(path, std::ios::binary), left_(std::filesystem::file_size(path)) {
  std::string magic(kMagic.size(), ' ');
  read(magic.data(), magic.size());
  if (magic != kMagic) throw damaged("its header is wrong");
  uint64_t length = 0;
  read(&length, sizeof(length));
  if (length > std::min(left_, kLongestText)) throw damaged("it is too short");
  std::string text(length, ' ');
  read(text.data(), text.size());
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    std::vector<StoredPiece> pieces;
    for (const auto& piece : json.at("pieces"))
      pieces.push_back({.name = piece.at(0).get<std::string>(), .floats = piece.at(1).get<size_t>()});
    identity_ = {.job = json.at("job").get<std::string>(),
                 .description = json.at("description").get<std::string>(),
                 .layout = StoreLayout::of(std::move(pieces))};
    slots_ = json.at("slots").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    throw damaged(error.what());
  }
  // Check before allocating memory for it.
  if (identity_.layout.floats > left_ / sizeof(float) / (slots_.size() + 1)) throw damaged("it is too short");
}

void StoreSnapshot::read(void* out, size_t bytes) {
  if (bytes > left_ || !file_.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes)))
    throw damaged("it is too short");
  left_ -= bytes;
}

Error StoreSnapshot::damaged(const std::string& why) const {
  return user_error(
      "{} is not a complete snapshot of a parameter server: {}; remove it to start the server without it",
      path_.string(), why);
}

void StoreSnapshot::read_into(StoreBlocks& blocks) {
  if (blocks.slots() != slots_) throw damaged("its optimizer state does not match the job's optimizer");
  Buffer copy(blocks.arenas() * kBlockFloats * sizeof(float));
  for (size_t block = 0; block < blocks.blocks(); ++block) {
    uint64_t count = 0;
    read(&count, sizeof(count));
    if (count == 0 || count > kBlockFloats / kRangeFloats) throw damaged("the segments of a block are wrong");
    std::vector<StoreSegment> segments(count);
    read(segments.data(), count * sizeof(StoreSegment));
    const std::span<float> floats = copy.as<float>().first(blocks.arenas() * blocks.floats_of(block));
    read(floats.data(), floats.size_bytes());
    if (!blocks.restore(block, std::move(segments), floats))
      throw damaged("the segments of a block are wrong");
  }
  std::string end(kEnd.size(), ' ');
  read(end.data(), end.size());
  if (end != kEnd || left_ != 0) throw damaged("its end is wrong");
}

}  // namespace telar
