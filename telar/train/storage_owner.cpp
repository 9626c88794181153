#include "telar/train/storage_owner.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "telar/comm/store/random_id.h"
#include "telar/core/error.h"
#include "telar/observe/process.h"

namespace telar {

namespace {

const std::string kOwner = "owner-";
const std::string kEnded = "ended";
constexpr size_t kDigits = 8;

/// What an owner writes: "HOST PID WHERE COUNT"; COUNT grows with each renewal, and is "ended" at the end.
struct Owner {
  std::string host;
  int pid = 0;
  std::string where;  ///< the host's start and the namespace in which PID is meant; "?" if unknown
  std::string count;

  std::string text() const { return fmt::format("{} {} {} {}\n", host, pid, where, count); }
  std::string described() const { return fmt::format("process {} on {}", pid, host); }
};

Owner owner_of(const std::string& text) {
  Owner owner;
  std::istringstream(text) >> owner.host >> owner.pid >> owner.where >> owner.count;
  return owner;
}

/// This process.
Owner own(const std::string& count) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  return {host_name(), ::getpid(), boot.empty() || space.empty() ? "?" : boot + "/" + space, count};
}

/// A process that nobody has waited for is gone, too.
bool is_gone(const Owner& owner) {
  if (owner.pid <= 0 || owner.where == "?" || owner.where != own("").where) return false;
  if (::kill(owner.pid, 0) != 0 && errno == ESRCH) return true;
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", owner.pid)), line);
  return line.find(") Z ") != std::string::npos;
}

/// Their names, in the order in which one comes after the other.
std::vector<std::string> owners_of(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) {
    return !name.starts_with(kOwner) ||
           name.find_first_not_of("0123456789abcdef-", kOwner.size()) != std::string::npos;
  });
  std::ranges::sort(names);
  return names;
}

int64_t number_of(const std::string& name) {
  int64_t number = 0;
  const char* begin = name.data() + kOwner.size();
  std::from_chars(begin, std::min(begin + kDigits, name.data() + name.size()), number);
  return number;
}

/// The name of an owner that follows on another one (empty: on none).
std::string name_after(const std::string& former, int distance) {
  const int64_t number = former.empty() ? 0 : number_of(former);
  return fmt::format("{}{:0{}}-{:016x}", kOwner, number + distance, kDigits, random_id());
}

}  // namespace

StorageOwner::StorageOwner(const StorageProgram& program, std::function<void(const std::string&)> warn,
                           Times times)
    : program_(program), warn_(std::move(warn)), times_(times) {}

StorageOwner::~StorageOwner() {
  const bool owned = renewals_.joinable();
  renewals_ = {};
  if (name_.empty() || !lost_.empty()) return;
  try {
    owned ? program_.write(name_, own(kEnded).text()) : program_.remove_file(name_);
  } catch (const Error& error) {
    warn_(fmt::format("the next process that continues the run waits for {} s first: {}",
                      std::chrono::duration_cast<std::chrono::seconds>(times_.patience).count(),
                      error.what()));
  }
}

void StorageOwner::claim(const std::function<void(const std::string&)>& say) {
  while (name_.empty()) {
    const std::vector<std::string> before = watch_all(say);
    const std::string name = name_ = name_after(before.empty() ? "" : before.back(), 1);
    program_.write(name, own("0").text());
    const std::vector<std::string> now = owners_of(program_.list());
    const auto is_known = [&](const std::string& one) {
      return one == name || std::ranges::find(before, one) != before.end();
    };
    if (!std::ranges::all_of(now, is_known)) {
      program_.remove_file(name);
      name_.clear();
      continue;
    }
    try {
      for (const std::string& other : before) program_.remove_file(other);
    } catch (const Error& error) {
      warn_(error.what());
    }
  }
  renewals_ = std::jthread([this](const std::stop_token& stop) { renew(stop, 1, ""); });
}

void StorageOwner::succeed(const std::string& former, int rank) {
  name_ = name_after(former, 1 + rank);
  renewals_ = std::jthread([this, former](const std::stop_token& stop) { renew(stop, 0, former); });
}

/// Returns the names that are there. Throws Error (run) if one of them is of a process that lives.
std::vector<std::string> StorageOwner::watch_all(const std::function<void(const std::string&)>& say) const {
  std::vector<std::string> watched;
  for (bool again = true; again;) {
    const std::vector<std::string> all = owners_of(program_.list());
    again = false;
    for (const std::string& one : all) {
      if (std::ranges::find(watched, one) != watched.end()) continue;
      again = true;
      if (watch(one, say) == Found::alive) throw run_error("{}", lost_to(one));
    }
    watched = all;
  }
  return watched;
}

StorageOwner::Found StorageOwner::watch(const std::string& name,
                                        const std::function<void(const std::string&)>& say) const {
  const std::optional<std::string> first = read_if_there(name);
  if (!first) return Found::ended;
  const Owner owner = owner_of(*first);
  if (owner.count == kEnded || is_gone(owner)) return Found::ended;
  say(fmt::format(
      "{}: {} stored the run, and has not noted its end: it is watched for up to {:g} s, to see "
      "whether it does still",
      program_.place(), owner.described(), std::chrono::duration<double>(times_.patience).count()));
  const auto end = std::chrono::steady_clock::now() + times_.patience;
  while (std::chrono::steady_clock::now() < end) {
    program_.rest(times_.renewal / 4);
    const std::optional<std::string> now = read_if_there(name);
    if (now != first) return !now || owner_of(*now).count == kEnded ? Found::ended : Found::alive;
  }
  return Found::silent;
}

bool StorageOwner::is_there(const std::string& name) const {
  const std::vector<std::string> names = program_.list();
  return std::ranges::find(names, name) != names.end();
}

std::optional<std::string> StorageOwner::read_if_there(const std::string& name) const {
  try {
    if (is_there(name)) return program_.read(name);
  } catch (const Error&) {
    if (is_there(name)) throw;
  }
  return std::nullopt;
}

/// Its own file may have been removed with all others; that alone makes nobody else the owner.
void StorageOwner::check() {
  require();
  const std::vector<std::string> all = owners_of(program_.list());
  if (all.empty() || all.back() <= name_) return;
  // One that was broken off while it looked may have left its file.
  const std::optional<std::string> other = read_if_there(all.back());
  if (!other || owner_of(*other).count == kEnded || is_gone(owner_of(*other))) return;
  const std::string why = lost_to(all.back());
  {
    const std::lock_guard lock(mutex_);
    lost_ = why;
  }
  require();
}

std::string StorageOwner::lost_to(const std::string& other) const {
  std::string who = "another process";
  try {
    who = owner_of(program_.read(other)).described();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it is another one, whoever that is
  }
  return fmt::format(
      "{}: {} stores the run here, so this process ({}) does not; end one of them, or give this run another place (--storage)",
      program_.place(), who, own("").described());
}

void StorageOwner::require() const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) throw user_error("{}", lost_);
}

/// `count`: of the next renewal; 0: the file is not there yet. `former`: a file that is removed then.
void StorageOwner::renew(const std::stop_token& stop, int64_t count, std::string former) {
  for (bool fails = false;; ++count) {
    std::unique_lock lock(mutex_);
    if (count > 0 && ends_.wait_for(lock, stop, times_.renewal, [&] { return stop.stop_requested(); }))
      return;
    lock.unlock();
    try {
      check();
      program_.write(name_, own(std::to_string(count)).text());
      if (!former.empty() && is_there(former)) program_.remove_file(former);
      former.clear();
      fails = false;
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::user) return;  // require() says it
      if (!std::exchange(fails, true)) warn_(error.what());
    } catch (const std::exception& error) {
      if (!std::exchange(fails, true)) warn_(error.what());
    }
  }
}

}  // namespace telar
