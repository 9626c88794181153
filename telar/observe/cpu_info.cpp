#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "telar/observe/hardware.h"
#include "telar/observe/sysfs.h"

namespace telar {
namespace {

namespace fs = std::filesystem;

/// Instruction sets that affect the speed of training, as Linux spells them.
constexpr std::array<std::string_view, 12> kFeatures = {"avx2",        "fma",         "avx512f",  "avx512bw",
                                                        "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16",
                                                        "amx_int8",    "asimd",       "sve",      "bf16"};

/// Converts "1024K" or "32M" to bytes.
uint64_t parse_size(const std::string& text) {
  uint64_t amount = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  if (error != std::errc()) return 0;
  const char unit = rest == text.data() + text.size() ? ' ' : *rest;
  return amount << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

struct CacheOfThread {
  int level;
  std::string type;
  uint64_t bytes;
  std::string shared_by;
};

struct Thread {
  int number;
  int package;
  std::string siblings;  ///< hardware threads of the same core
  int capacity;          ///< relative speed, if cores are of different kinds; otherwise -1
  std::vector<CacheOfThread> caches;

  const CacheOfThread* last_cache() const {
    const auto last = std::max_element(caches.begin(), caches.end(),
                                       [](const auto& a, const auto& b) { return a.level < b.level; });
    return last == caches.end() ? nullptr : &*last;
  }
};

std::vector<Thread> read_threads(const fs::path& root) {
  std::vector<Thread> threads;
  for (const fs::path& folder : list_folder(root / "sys/devices/system/cpu")) {
    const std::string name = folder.filename().string();
    int number = 0;
    if (!name.starts_with("cpu")) continue;
    const auto [end, error] = std::from_chars(name.data() + 3, name.data() + name.size(), number);
    // A CPU that is offline has no topology.
    if (error != std::errc() || end != name.data() + name.size() || !fs::exists(folder / "topology"))
      continue;
    Thread thread{number,
                  read_number(folder / "topology/physical_package_id", 0),
                  read_line(folder / "topology/thread_siblings_list"),
                  read_number(folder / "cpu_capacity", -1),
                  {}};
    for (const fs::path& cache : list_folder(folder / "cache")) {
      const int level = read_number(cache / "level", 0);
      if (level == 0) continue;
      thread.caches.push_back({level, read_line(cache / "type"), parse_size(read_line(cache / "size")),
                               read_line(cache / "shared_cpu_list")});
    }
    threads.push_back(std::move(thread));
  }
  std::sort(threads.begin(), threads.end(),
            [](const Thread& a, const Thread& b) { return a.number < b.number; });
  return threads;
}

int count_cores(const std::vector<const Thread*>& threads) {
  std::set<std::string> cores;
  for (const Thread* thread : threads) {
    cores.insert(thread->siblings.empty() ? std::to_string(thread->number) : thread->siblings);
  }
  return static_cast<int>(cores.size());
}

std::vector<CoreGroup> group_cores(const std::vector<Thread>& threads) {
  std::map<std::tuple<int, int, std::string>, std::vector<const Thread*>> members;
  for (const Thread& thread : threads) {
    const auto* cache = thread.last_cache();
    members[{thread.package, -thread.capacity, cache == nullptr ? "" : cache->shared_by}].push_back(&thread);
  }
  std::vector<CoreGroup> groups;
  for (const auto& [key, list] : members) {
    const auto* cache = list.front()->last_cache();
    CoreGroup group{{}, count_cores(list), list.front()->package, cache == nullptr ? 0 : cache->bytes};
    for (const Thread* thread : list) group.threads.push_back(thread->number);
    groups.push_back(std::move(group));
  }
  std::sort(groups.begin(), groups.end(),
            [](const CoreGroup& a, const CoreGroup& b) { return a.threads < b.threads; });
  return groups;
}

std::vector<CpuCache> count_caches(const std::vector<Thread>& threads) {
  std::map<std::tuple<int, std::string, uint64_t, size_t>, std::set<std::string>> kinds;
  for (const Thread& thread : threads) {
    for (const CacheOfThread& cache : thread.caches) {
      const size_t sharing = parse_cpu_list(cache.shared_by).size();
      kinds[{cache.level, cache.type, cache.bytes, sharing}].insert(cache.shared_by);
    }
  }
  std::vector<CpuCache> caches;
  for (const auto& [kind, instances] : kinds) {
    const auto& [level, type, bytes, sharing] = kind;
    caches.push_back({level, type, bytes, static_cast<int>(sharing), static_cast<int>(instances.size())});
  }
  return caches;
}

int processors_in(const fs::path& cpuinfo) {
  std::ifstream stream(cpuinfo);
  int count = 0;
  for (std::string line; std::getline(stream, line);) count += line.starts_with("processor") ? 1 : 0;
  return count;
}

std::vector<std::string> features_in(const std::map<std::string, std::string>& fields) {
  const auto flags = fields.contains("flags")      ? fields.at("flags")
                     : fields.contains("Features") ? fields.at("Features")
                                                   : std::string();
  std::istringstream words(flags);
  const std::set<std::string> present{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> features;
  for (const std::string_view feature : kFeatures) {
    if (present.contains(std::string(feature))) features.emplace_back(feature);
  }
  return features;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  constexpr int kMostProcessors = 1 << 16;
  std::vector<int> list;
  std::istringstream stream(text);
  for (std::string range; std::getline(stream, range, ',');) {
    std::istringstream part(range);
    int first = 0;
    if (!(part >> first)) break;
    int last = first;
    if (part.peek() == '-') part.ignore() >> last;
    for (int i = first; i <= std::min(last, kMostProcessors); ++i) list.push_back(i);
  }
  return list;
}

CpuInfo read_cpu(const fs::path& root) {
  const auto fields = read_fields(root / "proc/cpuinfo");
  CpuInfo cpu;
  cpu.model = fields.contains("model name") ? fields.at("model name") : "unknown processor";
  cpu.features = features_in(fields);

  std::vector<Thread> threads = read_threads(root);
  if (threads.empty()) {
    for (int i = 0; i < processors_in(root / "proc/cpuinfo"); ++i) threads.push_back({i, 0, "", -1, {}});
  }
  cpu.threads = static_cast<int>(threads.size());
  cpu.groups = group_cores(threads);
  cpu.caches = count_caches(threads);
  std::set<int> packages;
  for (const Thread& thread : threads) packages.insert(thread.package);
  cpu.packages = static_cast<int>(packages.size());
  for (const CoreGroup& group : cpu.groups) cpu.cores += group.cores;
  return cpu;
}

}  // namespace telar
