#include "telar/comm/store/held_store.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include "telar/comm/printable.h"
#include "telar/core/error.h"
#include "telar/core/memory_limit.h"
#include "telar/io/disk.h"

namespace telar {
namespace {

std::chrono::nanoseconds nanoseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

double seconds_since(StoreClock::time_point since) {
  return std::chrono::duration<double>(StoreClock::now() - since).count();
}

/// Processor time of this thread.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A server that is killed and started again may still be ending.
std::optional<FolderLock> lock_of(const HeldStoreOptions& options) {
  if (options.snapshots.empty()) return std::nullopt;
  constexpr auto kEnds = std::chrono::seconds(5);
  make_folder(options.snapshots);
  const auto end = StoreClock::now() + kEnds;
  std::optional<FolderLock> lock = FolderLock::take(options.snapshots);
  for (; !lock; lock = FolderLock::take(options.snapshots)) {
    if (StoreClock::now() > end)
      throw user_error("another parameter server keeps its snapshots in {}; each needs a folder of its own",
                       options.snapshots);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (!options.fresh) return lock;
  for (const auto& entry : std::filesystem::directory_iterator(options.snapshots))
    std::filesystem::remove_all(entry.path());
  return lock;
}

}  // namespace

double snapshot_pause(double running, double last, double work) {
  constexpr double kShareOfTime = 0.02;
  // A kill during the next snapshot costs most: the updates since this one began.
  const double lost = std::clamp(0.01 * running, 1.0, 10.0);
  return std::max({lost - 2 * last, work / kShareOfTime - last, last});
}

HeldStore::HeldStore(HeldStoreOptions options)
    : options_(std::move(options)),
      lock_(lock_of(options_)),
      ledger_(options_.snapshots, options_.say),
      members_(nanoseconds(options_.round_seconds)) {
  if (options_.snapshots.empty()) return;
  take_up_snapshot();
  saver_ = std::thread([this] { save_at_times(); });
}

HeldStore::~HeldStore() {
  end();
  if (saver_.joinable()) saver_.join();
  save();
}

void HeldStore::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (blocks_) blocks_->stop();
  }
  changed_.notify_all();
}

void HeldStore::say(const std::string& sentence) const {
  if (options_.say) options_.say(sentence);
}

bool HeldStore::create(StoreIdentity identity) {
  {
    const std::lock_guard lock(mutex_);
    if (blocks_) {
      if (const std::string other = difference(identity); !other.empty())
        throw user_error("this server holds other parameters for this job, or has another update: {}", other);
      return false;
    }
    make(std::move(identity));
    ledger_.begin(identity_.job);
  }
  changed_.notify_all();
  return true;
}

/// Another text may describe the same update.
std::string HeldStore::difference(const StoreIdentity& other) const {
  if (other == identity_) return {};
  const std::string update = blocks_->update().difference(other.description);
  return update.empty() ? telar::difference(identity_.layout, other.layout) : update;
}

bool HeldStore::created(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest, [&] { return blocks_ || ending_; });
  return blocks_ != nullptr;
}

void HeldStore::require_job(const std::string& job) {
  const std::lock_guard lock(mutex_);
  if (blocks_ && job != identity_.job)
    throw user_error("this server holds the parameters of another job than '{}'", job);
}

/// Call with mutex_ locked, or before other threads know this object.
void HeldStore::make(StoreIdentity identity) {
  auto update = options_.make_update(identity.description, identity.layout);
  auto blocks = std::make_unique<StoreBlocks>(identity.layout, std::move(update), members_, kOpenBytes);
  blocks->count_in(ledger_);
  if (options_.own != 0) blocks->chain_as(options_.own);
  identity_ = std::move(identity);
  blocks_ = std::move(blocks);
}

void HeldStore::take_up_snapshot() {
  const auto made = [this](const StoreIdentity& identity) -> StoreBlocks& {
    blocks_.reset();
    make(identity);
    return *blocks_;
  };
  if (!load_snapshot(options_.snapshots, made, [this](const std::string& sentence) { say(sentence); }))
    return;
  for (size_t block = 0; block < blocks_->blocks(); ++block)
    for (const StoreSegment& segment : blocks_->segments(block)) at_start_.push_back(segment);
  int64_t newest = 0;
  for (const StoreSegment& segment : at_start_) newest = std::max(newest, segment.version);
  const StoreLedger::Lost lost = ledger_.continue_from(identity_.job, newest);
  saved_ = blocks_->updates();
  begun_ = true;
  const std::string cost =
      lost.updates ? fmt::format("{} updates after the snapshot are lost", *lost.updates)
                   : fmt::format("how many updates after the snapshot are lost is unknown: {}", lost.why);
  say(fmt::format("Holds the parameters of job {}; {}", printable(identity_.job), cost));
}

void HeldStore::save_first() {
  const std::lock_guard lock(saving_);
  if (!std::exchange(begun_, true)) save_now();
}

void HeldStore::save() {
  const std::lock_guard lock(saving_);
  if (begun_ && blocks_->updates() != saved_) save_now();
}

void HeldStore::save_now() {
  if (options_.snapshots.empty()) return;
  const StoreClock::time_point begin = StoreClock::now();
  const double work_before = thread_seconds();
  try {
    const uint64_t updates = blocks_->updates();
    save_snapshot(options_.snapshots, identity_, *blocks_);
    saved_ = updates;
    if (std::exchange(failed_, false)) say("Snapshots are saved again");
  } catch (const std::exception& error) {
    if (!std::exchange(failed_, true))
      say(fmt::format(
          "The snapshot could not be saved ({}); the training continues, and further attempts follow",
          as_error(error).what()));
  }
  saving_seconds_ = seconds_since(begin);
  saving_work_ = thread_seconds() - work_before;
}

double HeldStore::pause() {
  if (options_.snapshot_seconds > 0) return options_.snapshot_seconds;
  const std::lock_guard lock(saving_);
  return snapshot_pause(seconds_since(start_), saving_seconds_, saving_work_);
}

void HeldStore::save_at_times() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    const double pause = this->pause();
    lock.lock();
    changed_.wait_for(lock, nanoseconds(pause), [&] { return ending_; });
    if (ending_) return;
    lock.unlock();
    save();
    lock.lock();
  }
}

}  // namespace telar
