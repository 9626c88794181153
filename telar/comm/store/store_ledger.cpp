#include "telar/comm/store/store_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "telar/io/checksum.h"

namespace telar {
namespace {

uint64_t checksum_of_text(const std::string& text) {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(text)));
  return checksum.value();
}

}  // namespace

StoreLosses StoreLosses::with(const StoreLosses& more) const {
  return {.restarts = restarts + more.restarts,
          .updates = updates + more.updates,
          .unknown = unknown + more.unknown};
}

StoreLosses StoreLosses::since(const StoreLosses& before) const {
  if (restarts <= before.restarts || updates < before.updates || unknown < before.unknown)
    return {.restarts = 1, .updates = 0, .unknown = 1};
  return {.restarts = restarts - before.restarts,
          .updates = updates - before.updates,
          .unknown = unknown - before.unknown};
}

StoreLedger::StoreLedger(const std::filesystem::path& folder, std::function<void(const std::string&)> say)
    : path_(folder.empty() ? folder : folder / "store.updates"), say_(std::move(say)) {}

void StoreLedger::begin(const std::string& job) {
  const std::lock_guard lock(mutex_);
  record_ = {.job = checksum_of_text(job)};
  newest_ = 0;
  write();
}

StoreLedger::Lost StoreLedger::continue_from(const std::string& job, int64_t version) {
  const std::lock_guard lock(mutex_);
  Lost lost{.updates = std::nullopt, .why = read(checksum_of_text(job), version)};
  if (lost.why.empty())
    record_.losses.updates += lost.updates.emplace(record_.newest - version);
  else
    record_ = {.job = checksum_of_text(job), .losses = {.unknown = 1}};
  ++record_.losses.restarts;
  record_.newest = version;
  newest_ = version;
  write();
  return lost;
}

uint64_t StoreLedger::checksum_of(const Record& record) {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(&record, 1)).first(offsetof(Record, checksum)));
  return checksum.value();
}

std::string StoreLedger::read(uint64_t job, int64_t version) {
  std::ifstream file(path_, std::ios::binary);
  if (!file) return fmt::format("{} is missing", path_.string());
  Record found;
  if (!file.read(reinterpret_cast<char*>(&found), sizeof(found)) || found.checksum != checksum_of(found))
    return fmt::format("{} is damaged", path_.string());
  const auto possible = [](int64_t count) { return count >= 0 && count <= kMostUpdates; };
  const StoreLosses& losses = found.losses;
  if (!possible(found.newest) || !possible(losses.restarts) || !possible(losses.updates) ||
      !possible(losses.unknown))
    return fmt::format("{} has numbers that are not possible", path_.string());
  if (found.job != job) return fmt::format("{} belongs to another job", path_.string());
  if (found.newest < version) return fmt::format("{} is older than the snapshot", path_.string());
  record_ = found;
  return "";
}

void StoreLedger::reached(int64_t version) {
  if (version <= newest_) return;  // another block was first
  const std::lock_guard lock(mutex_);
  if (version <= newest_) return;
  newest_ = version;
  record_.newest = version;
  write();
}

StoreLosses StoreLedger::losses() const {
  const std::lock_guard lock(mutex_);
  return record_.losses;
}

/// The file keeps its size after the first write, so that later ones need no space. (A mapping of the file
/// would be faster, but where the disk is full, writing to it can end the process.) A file that cannot be
/// written is removed: an old count would be taken for the present one.
void StoreLedger::write() {
  if (path_.empty()) return;
  constexpr auto kUpdate = std::ios::binary | std::ios::in | std::ios::out;
  if (!file_.is_open()) {
    std::error_code ignored;
    std::filesystem::create_directories(path_.parent_path(), ignored);
    file_.open(path_, kUpdate);
  }
  if (!file_.is_open()) file_.open(path_, kUpdate | std::ios::trunc);
  record_.checksum = checksum_of(record_);
  file_.seekp(0);
  file_.write(reinterpret_cast<const char*>(&record_), sizeof(record_));
  if (file_.flush()) return;
  file_.clear();
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  if (!std::exchange(failed_, true) && say_)
    say_(fmt::format("The count of updates cannot be written to {}; a restart will not know what it has lost",
                     path_.string()));
}

}  // namespace telar
