#include "telar/observe/hardware.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "io/temp_folder.h"
#include "telar/observe/process.h"

namespace telar {
namespace {

using test::TempFolder;
using test::write_text;

/// Files with the form of those in which Linux describes its CPUs.
class HostTree {
 public:
  const std::filesystem::path& root() const { return folder_.path(); }

  void add_file(const std::string& path, const std::string& text) { write_text(folder_ / path, text + "\n"); }

  void add_thread(int number, int package, const std::string& siblings, const std::string& share_l3) {
    const std::string cpu = fmt::format("sys/devices/system/cpu/cpu{}/", number);
    add_file(cpu + "topology/physical_package_id", std::to_string(package));
    add_file(cpu + "topology/thread_siblings_list", siblings);
    add_cache(cpu + "cache/index0/", 1, "Data", "32K", siblings);
    add_cache(cpu + "cache/index2/", 2, "Unified", "1024K", siblings);
    add_cache(cpu + "cache/index3/", 3, "Unified", "32768K", share_l3);
  }

 private:
  void add_cache(const std::string& folder, int level, const std::string& type, const std::string& size,
                 const std::string& shared) {
    add_file(folder + "level", std::to_string(level));
    add_file(folder + "type", type);
    add_file(folder + "size", size);
    add_file(folder + "shared_cpu_list", shared);
  }
  TempFolder folder_;
};

/// Recorded on a virtual machine with two Zen 4 cores, and shortened to the lines that are read.
constexpr const char* kCpuInfo =
    "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\n"
    "flags\t\t: fpu sse2 fma avx avx2 bmi2 avx512f avx512dq avx512bw avx512_bf16 avx512_vnni fsrm\n\n"
    "processor\t: 1\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\nflags\t\t: fpu\n\n";

TEST(CpuInfo, ReadsAHostWithTwoCores) {
  HostTree host;
  host.add_file("proc/cpuinfo", kCpuInfo);
  host.add_thread(0, 0, "0", "0-1");
  host.add_thread(1, 0, "1", "0-1");
  host.add_file("sys/devices/system/cpu/cpufreq/boost", "1");

  const CpuInfo cpu = read_cpu(host.root());
  EXPECT_EQ(cpu.model, "AMD EPYC");
  EXPECT_EQ(cpu.features,
            (std::vector<std::string>{"avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16"}));
  EXPECT_EQ(cpu.packages, 1);
  EXPECT_EQ(cpu.cores, 2);
  EXPECT_EQ(cpu.threads, 2);
  ASSERT_EQ(cpu.groups.size(), 1U);
  EXPECT_EQ(cpu.groups[0].threads, (std::vector<int>{0, 1}));
  EXPECT_EQ(cpu.groups[0].cache_bytes, 32U << 20);
  ASSERT_EQ(cpu.caches.size(), 3U);
  EXPECT_EQ(cpu.caches[0].bytes, 32U << 10);
  EXPECT_EQ(cpu.caches[0].count, 2);
  EXPECT_EQ(cpu.caches[2].threads, 2);
  EXPECT_EQ(cpu.caches[2].count, 1);
}

TEST(CpuInfo, GroupsCoresByCacheAndCountsHyperthreadsOnce) {
  // Two packages with two core complexes each; a complex has two cores with two threads each. Thread t + 8 is
  // the second thread of core t.
  HostTree host;
  host.add_file("proc/cpuinfo", kCpuInfo);
  for (int t = 0; t < 16; ++t) {
    const int core = t % 8;
    const int complex = core / 2;
    host.add_thread(
        t, core / 4, fmt::format("{},{}", core, core + 8),
        fmt::format("{}-{},{}-{}", complex * 2, complex * 2 + 1, complex * 2 + 8, complex * 2 + 9));
  }
  const CpuInfo cpu = read_cpu(host.root());
  EXPECT_EQ(cpu.packages, 2);
  EXPECT_EQ(cpu.cores, 8);
  EXPECT_EQ(cpu.threads, 16);
  ASSERT_EQ(cpu.groups.size(), 4U);
  EXPECT_EQ(cpu.groups[3].threads, (std::vector<int>{6, 7, 14, 15}));
  EXPECT_EQ(cpu.groups[3].cores, 2);
  EXPECT_EQ(cpu.groups[3].package, 1);
}

TEST(CpuInfo, CoresOfDifferentSpeedAreSeparateGroups) {
  HostTree host;
  for (int t = 0; t < 4; ++t) {
    host.add_thread(t, 0, std::to_string(t), "0-3");
    host.add_file(fmt::format("sys/devices/system/cpu/cpu{}/cpu_capacity", t), t < 2 ? "1024" : "620");
  }
  const CpuInfo cpu = read_cpu(host.root());
  ASSERT_EQ(cpu.groups.size(), 2U);
  EXPECT_EQ(cpu.groups[0].threads, (std::vector<int>{0, 1}));
  EXPECT_EQ(cpu.model, "unknown processor");
}

TEST(CpuInfo, WithoutTopologyEachThreadIsACore) {
  HostTree host;
  host.add_file("proc/cpuinfo", kCpuInfo);
  const CpuInfo cpu = read_cpu(host.root());
  EXPECT_EQ(cpu.cores, 2);
  ASSERT_EQ(cpu.groups.size(), 1U);
  EXPECT_EQ(cpu.groups[0].threads, (std::vector<int>{0, 1}));
}

TEST(CpuInfo, ThisHostHasAtLeastTheAllowedThreads) {
  const CpuInfo cpu = read_cpu();
  EXPECT_GE(cpu.threads, available_threads());
  EXPECT_GE(cpu.cores, 1);
  EXPECT_LE(cpu.cores, cpu.threads);
}

TEST(CpuList, ParsesTheFormatOfLinux) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>());
  EXPECT_LT(parse_cpu_list("0-2000000000").size(), 100'000U);
}

TEST(NvidiaSearch, FindsTheGpusThatCanBeOpened) {
  HostTree host;
  const std::string gpus = "proc/driver/nvidia/gpus/";
  host.add_file(gpus + "0000:18:00.0/information",
                "Model: \t\t NVIDIA H200\nIRQ:   \t\t 128\nDevice Minor: \t 1");
  host.add_file(gpus + "0000:2a:00.0/information",
                "Model: \t\t NVIDIA A100\nIRQ:   \t\t 129\nDevice Minor: \t 0");
  host.add_file("dev/nvidia0", "");
  NvidiaSearch search = find_nvidia_gpus(host.root());
  ASSERT_EQ(search.gpus.size(), 1U);
  EXPECT_EQ(search.gpus[0].model, "NVIDIA A100");
  EXPECT_EQ(search.gpus[0].bus, "0000:2a:00.0");
  EXPECT_NE(search.not_found.find("/dev/nvidia1 is missing"), std::string::npos) << search.not_found;

  host.add_file("dev/nvidia1", "");
  search = find_nvidia_gpus(host.root());
  ASSERT_EQ(search.gpus.size(), 2U);
  EXPECT_EQ(search.gpus[1].model, "NVIDIA H200");
  EXPECT_EQ(search.not_found, "");
}

TEST(NvidiaSearch, DistinguishesAMissingDeviceFromAMissingDriver) {
  HostTree host;
  EXPECT_NE(find_nvidia_gpus(host.root()).not_found.find("no NVIDIA device"), std::string::npos);
  host.add_file("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de");
  host.add_file("sys/bus/pci/devices/0000:01:00.0/class", "0x030200");
  const auto search = find_nvidia_gpus(host.root());
  EXPECT_TRUE(search.gpus.empty());
  EXPECT_NE(search.not_found.find("0000:01:00.0), but its driver is not loaded"), std::string::npos);
}

TEST(Memory, PeakFollowsTheTouchedMemory) {
  const uint64_t before = peak_memory_bytes();
  const std::vector<char> block(size_t{64} << 20, 'x');
  EXPECT_GE(peak_memory_bytes() + (8U << 20), before + block.size());
  EXPECT_EQ(std::count(block.begin(), block.end(), 'x'), static_cast<std::ptrdiff_t>(block.size()));
}

TEST(Memory, OfTheHostIsRead) {
  HostTree host;
  host.add_file("proc/meminfo",
                "MemTotal:       24684084 kB\nMemFree:        19740428 kB\nMemAvailable:   23668136 kB");
  EXPECT_EQ(read_memory(host.root()).total, 24684084ULL * 1024);
  EXPECT_EQ(read_memory(host.root()).available, 23668136ULL * 1024);
}

TEST(Disk, FreeSpaceIsKnownForAFileThatDoesNotExistYet) {
  TempFolder folder;
  const auto free = free_disk_bytes(folder / "not/there/yet");
  ASSERT_TRUE(free);
  EXPECT_GT(*free, 0U);
  EXPECT_EQ(bytes_text(17), "17 bytes");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(uint64_t{32} << 20), "32 MiB");
}

}  // namespace
}  // namespace telar
