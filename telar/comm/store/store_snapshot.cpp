#include "telar/comm/store/store_snapshot.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "telar/comm/printable.h"
#include "telar/io/atomic_file.h"

namespace telar {
namespace {

constexpr std::string_view kMagic = "TELARSTORE 3\n";
constexpr std::string_view kMagicWord = "TELARSTORE ";
constexpr char kName[] = "store.snapshot";
constexpr char kPreviousName[] = "store.snapshot.previous";
constexpr uint64_t kLongestText = uint64_t{1} << 30;

static_assert(sizeof(StoreSegment) == 4 * sizeof(uint64_t));

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Writes a file and its checksums.
class ChecksummedFile {
 public:
  explicit ChecksummedFile(const std::filesystem::path& path) : file_(path) {}
  void write(std::span<const std::byte> bytes) {
    checksum_.add(bytes);
    file_.write(bytes);
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write_checksum() {
    const uint64_t value = checksum_.value();
    file_.write(bytes_of(value));
  }
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  Checksum checksum_;
};

/// The newest snapshot gets a second name before another file takes its first one, so that a crash at any
/// moment leaves a whole snapshot.
void keep_as_previous(const std::filesystem::path& newest) {
  if (!std::filesystem::exists(newest)) return;
  const std::filesystem::path previous = newest.parent_path() / kPreviousName;
  std::filesystem::remove(previous);
  std::error_code no_links;
  std::filesystem::create_hard_link(newest, previous, no_links);
  if (no_links) std::filesystem::copy_file(newest, previous);
}

/// Throws Error (user) for a file that cannot be used, although it may be whole.
void check_usable(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw user_error("{} is not a file; it should be a snapshot of a parameter server", path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file) throw user_error("the snapshot {} cannot be opened: {}", path.string(), std::strerror(errno));
  std::string begin(kMagic.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  const char version = begin[begin.size() - 2];
  const bool release = version >= '0' && version <= '9';  // anything else is damage
  if (begin != kMagic && begin.starts_with(kMagicWord) && release && begin.back() == '\n')
    throw user_error(
        "the snapshot {} has format '{}', but this release of telar reads '{}'; start the release that has written it, or remove it",
        path.string(), printable(begin.substr(0, begin.size() - 1)), kMagic.substr(0, kMagic.size() - 1));
}

/// A snapshot that is not damaged as far as it was read, or what is wrong with it.
struct OpenedSnapshot {
  std::optional<StoreSnapshot> snapshot;
  std::optional<Error> damage;

  explicit OpenedSnapshot(const std::filesystem::path& path) {
    check_usable(path);
    try {
      snapshot.emplace(path);
    } catch (const Error& error) {
      damage = error;
    }
  }

  /// Throws Error (user) if this server cannot continue from a snapshot of this kind.
  void fill(const std::filesystem::path& path,
            const std::function<StoreBlocks&(const StoreIdentity&)>& make) {
    if (damage) return;
    StoreBlocks* blocks = nullptr;
    try {
      blocks = &make(snapshot->identity());
    } catch (const Error& error) {
      throw Error(error.kind(), cannot_continue(path, error.what()));
    }
    if (blocks->slots() != snapshot->slots())
      throw user_error("{}", cannot_continue(path, "its optimizer has other state here"));
    try {
      snapshot->read_into(*blocks);
    } catch (const Error& error) {
      damage = error;
    }
  }

 private:
  static std::string cannot_continue(const std::filesystem::path& path, const std::string& why) {
    return fmt::format(
        "The snapshot {} is not damaged, but this server cannot continue from it: {}; start the release of telar that has written it, or remove the snapshots",
        path.string(), why);
  }
};

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
  const std::filesystem::path path = std::filesystem::path(folder) / kName;
  ChecksummedFile file(path);
  file.write(kMagic);
  const uint64_t length = text.size();
  file.write(bytes_of(length));
  file.write(text);
  file.write_checksum();

  Buffer copy(blocks.arenas() * kBlockFloats * sizeof(float));
  for (size_t block = 0; block < blocks.blocks(); ++block) {
    const StoreBlocks::Copied copied = blocks.copy(block, copy.as<float>());
    const uint64_t count = copied.segments.size();
    file.write(bytes_of(count));
    file.write(std::as_bytes(std::span(copied.segments)));
    file.write(std::as_bytes(copied.floats));
    const std::vector<WorkRun> runs = runs_of(copied.works);
    const uint64_t run_count = runs.size();
    file.write(bytes_of(run_count));
    file.write(std::as_bytes(std::span(runs)));
    file.write_checksum();
  }
  keep_as_previous(path);
  file.commit();
}

StoreSnapshot::StoreSnapshot(const std::filesystem::path& path)
    : StoreSnapshot(std::make_unique<std::ifstream>(path, std::ios::binary), std::filesystem::file_size(path),
                    path.string()) {}

StoreSnapshot::StoreSnapshot(std::unique_ptr<std::istream> stream, uint64_t bytes, std::string name)
    : name_(std::move(name)), stream_(std::move(stream)), left_(bytes) {
  read_header();
}

void StoreSnapshot::read_header() {
  std::string magic(kMagic.size(), ' ');
  read(magic.data(), magic.size());
  if (magic != kMagic) throw damaged("its header is wrong");
  uint64_t length = 0;
  read(&length, sizeof(length));
  if (length > std::min(left_, kLongestText)) throw damaged("it is too short");
  std::string text(length, ' ');
  read(text.data(), text.size());
  read_checksum("its description");
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    std::vector<StoredPiece> pieces;
    uint64_t left = left_ / sizeof(float);
    for (const auto& piece : json.at("pieces")) {
      if (!piece.at(1).is_number_unsigned())
        throw damaged(fmt::format("the size of a piece is {}", piece.at(1).dump()));
      pieces.push_back({.name = piece.at(0).get<std::string>(), .floats = piece.at(1).get<size_t>()});
      // Also keeps the sum of all from overflowing.
      if (pieces.back().floats > left) throw damaged("it is too short");
      left -= pieces.back().floats;
    }
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
  if (bytes > left_ || !stream_->read(static_cast<char*>(out), static_cast<std::streamsize>(bytes)))
    throw damaged("it is too short");
  left_ -= bytes;
  checksum_.add({static_cast<const std::byte*>(out), bytes});
}

void StoreSnapshot::read_checksum(const char* part) {
  const uint64_t expected = checksum_.value();
  uint64_t found = 0;
  const Checksum before = checksum_;
  read(&found, sizeof(found));
  checksum_ = before;
  if (found != expected)
    throw damaged(fmt::format("the checksum of {} is {:016x} instead of {:016x}", part, expected, found));
}

Error StoreSnapshot::damaged(const std::string& why) const {
  return user_error(
      "{} is not a complete snapshot of a parameter server: {}; remove it to start the server without it",
      name_, why);
}

StoreWorks StoreSnapshot::read_works() {
  uint64_t count = 0;
  read(&count, sizeof(count));
  if (count > left_ / sizeof(WorkRun)) throw damaged("it is too short");
  StoreWorks works;
  for (; count > 0; --count) {
    WorkRun run;
    read(&run, sizeof(run));
    if (!add_run(works, run)) throw damaged("the pieces of work of a block are wrong");
  }
  return works;
}

void StoreSnapshot::read_into(StoreBlocks& blocks) {
  Buffer copy(blocks.arenas() * kBlockFloats * sizeof(float));
  for (size_t block = 0; block < blocks.blocks(); ++block) {
    uint64_t count = 0;
    read(&count, sizeof(count));
    if (count == 0 || count > kBlockFloats / kRangeFloats) throw damaged("the segments of a block are wrong");
    std::vector<StoreSegment> segments(count);
    read(segments.data(), count * sizeof(StoreSegment));
    const std::span<float> floats = copy.as<float>().first(blocks.arenas() * blocks.floats_of(block));
    read(floats.data(), floats.size_bytes());
    StoreWorks works = read_works();
    read_checksum(fmt::format("block {}", block).c_str());
    if (!blocks.restore(block,
                        {.segments = std::move(segments), .floats = floats, .works = std::move(works)}))
      throw damaged("the segments of a block are wrong");
  }
  if (left_ != 0) throw damaged(fmt::format("{} bytes follow its end", left_));
}

bool load_snapshot(const std::string& folder, const std::function<StoreBlocks&(const StoreIdentity&)>& make,
                   const std::function<void(const std::string&)>& say) {
  remove_leftovers(folder);
  std::optional<OpenedSnapshot> newest;
  std::filesystem::path damaged;
  for (const char* name : {kName, kPreviousName}) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    if (!std::filesystem::exists(path)) continue;
    OpenedSnapshot opened(path);
    if (newest && newest->snapshot && opened.snapshot &&
        !(newest->snapshot->identity() == opened.snapshot->identity()))
      throw user_error(
          "The snapshot {} is damaged ({}), and the one before, {}, is of another job or model; put the right snapshots there, or remove both",
          damaged.string(), newest->damage->what(), path.string());
    opened.fill(path, make);
    if (opened.damage) {
      if (newest)
        throw user_error(
            "No snapshot of this parameter server can be used, neither the newest ({}) nor the one before ({})",
            newest->damage->what(), opened.damage->what());
      newest.emplace(std::move(opened));
      damaged = path;
      continue;
    }
    if (newest) {
      // Otherwise the next snapshot would put the damaged one in the place of this one.
      const std::string kept = damaged.string() + ".damaged";
      std::filesystem::rename(damaged, kept);
      say(fmt::format("The newest snapshot is damaged and was renamed to {} ({})", kept,
                      newest->damage->what()));
    }
    say(fmt::format("Continues from the snapshot {}", path.string()));
    return true;
  }
  if (newest) throw Error(*newest->damage);
  return false;
}

}  // namespace telar
