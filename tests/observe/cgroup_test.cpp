#include "telar/observe/cgroup.h"

#include <gtest/gtest.h>

#include "io/temp_folder.h"
#include "telar/observe/process.h"

namespace telar {
namespace {

using test::TempFolder;
using test::write_text;

constexpr uint64_t kMebibyte = uint64_t{1} << 20U;

/// A root folder with the files in which Linux describes control groups.
class GroupTree {
 public:
  const std::filesystem::path& root() const { return folder_.path(); }
  void add_file(const std::string& path, const std::string& text) { write_text(folder_ / path, text + "\n"); }
  CgroupLimits read() const { return read_cgroup_limits(root()); }

 private:
  TempFolder folder_;
};

/// As in a pod of Kubernetes or a container of Docker on a current system: the container sees its own group
/// as the root.
class Container : public GroupTree {
 public:
  Container() {
    add_file("proc/self/cgroup", "0::/");
    add_file("proc/self/mountinfo",
             "33 32 0:29 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate,memory_recursiveprot");
  }
};

/// As on a host with version 1, where each controller has a mount of its own and the process is in a group
/// two levels deep.
class HostOfVersion1 : public GroupTree {
 public:
  HostOfVersion1() {
    add_file("proc/self/cgroup", "8:cpu,cpuacct:/batch/job7\n7:memory:/batch/job7\n1:name=systemd:/");
    add_file("proc/self/mountinfo",
             "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
             "34 30 0:30 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
             "35 30 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory");
  }
};

TEST(CgroupLimits, OfAContainerAreReadFromItsRootGroup) {
  Container tree;
  EXPECT_FALSE(tree.read().cpus);
  EXPECT_FALSE(tree.read().memory_bytes);
  tree.add_file("sys/fs/cgroup/cpu.max", "150000 100000");
  tree.add_file("sys/fs/cgroup/memory.max", "499122176");
  EXPECT_EQ(tree.read().cpus, 1.5);
  EXPECT_EQ(tree.read().memory_bytes, 476 * kMebibyte);
  EXPECT_FALSE(tree.read().memory_left) << "the group's use is unknown";
}

TEST(CgroupLimits, WrittenAsMaxAreNone) {
  Container tree;
  tree.add_file("sys/fs/cgroup/cpu.max", "max 100000");
  tree.add_file("sys/fs/cgroup/memory.max", "max");
  EXPECT_FALSE(tree.read().cpus);
  EXPECT_FALSE(tree.read().memory_bytes);
}

TEST(CgroupLimits, OfOuterGroupsHoldToo) {
  Container tree;
  tree.add_file("proc/self/cgroup", "0::/user.slice/run-5.scope");
  tree.add_file("sys/fs/cgroup/user.slice/cpu.max", "100000 100000");
  tree.add_file("sys/fs/cgroup/user.slice/run-5.scope/cpu.max", "400000 100000");
  tree.add_file("sys/fs/cgroup/user.slice/run-5.scope/memory.max", "1048576");
  EXPECT_EQ(tree.read().cpus, 1.0);
  EXPECT_EQ(tree.read().memory_bytes, kMebibyte);
}

TEST(CgroupLimits, OfVersion1AreReadFromTheMountOfEachController) {
  HostOfVersion1 tree;
  tree.add_file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  tree.add_file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  tree.add_file("sys/fs/cgroup/cpu/batch/job7/cpu.cfs_quota_us", "250000");
  tree.add_file("sys/fs/cgroup/cpu/batch/job7/cpu.cfs_period_us", "100000");
  tree.add_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  tree.add_file("sys/fs/cgroup/memory/batch/job7/memory.limit_in_bytes", "104857600");
  EXPECT_EQ(tree.read().cpus, 2.5);
  EXPECT_EQ(tree.read().memory_bytes, 100 * kMebibyte);
}

TEST(CgroupLimits, OfAGroupNamedFromOutsideTheContainerAreReadFromTheMount) {
  HostOfVersion1 tree;
  tree.add_file("proc/self/cgroup", "7:memory:/docker/0123");
  tree.add_file("proc/self/mountinfo",
                "35 30 0:31 /docker/0123 /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory");
  tree.add_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600");
  EXPECT_EQ(tree.read().memory_bytes, 100 * kMebibyte);
}

TEST(CgroupLimits, LeaveWhatTheGroupDoesNotUseOrHoldsAsFileCache) {
  Container tree;
  tree.add_file("sys/fs/cgroup/memory.max", std::to_string(100 * kMebibyte));
  tree.add_file("sys/fs/cgroup/memory.current", std::to_string(70 * kMebibyte));
  tree.add_file("sys/fs/cgroup/memory.stat",
                "anon 1\nfile 2\ninactive_file " + std::to_string(30 * kMebibyte));
  EXPECT_EQ(tree.read().memory_left, 60 * kMebibyte);
  tree.add_file("proc/meminfo", "MemTotal: 24684084 kB\nMemAvailable: 23668136 kB");
  EXPECT_EQ(read_memory(tree.root()).available, 60 * kMebibyte);
}

TEST(CgroupLimits, ThatAreMissingOrMangledAreNone) {
  EXPECT_FALSE(read_cgroup_limits(GroupTree().root()).cpus);
  Container tree;
  tree.add_file("proc/self/mountinfo", "33\n-\n33 32 0:29 / /sys/fs/cgroup ro - cgroup2\n");
  tree.add_file("sys/fs/cgroup/cpu.max", "150000 100000");
  EXPECT_FALSE(tree.read().cpus);
  Container empty_period;
  empty_period.add_file("sys/fs/cgroup/cpu.max", "150000 0");
  EXPECT_FALSE(empty_period.read().cpus);
}

TEST(AvailableThreads, FollowAQuotaRoundedUpAndDividedAmongProcesses) {
  const int processors = available_threads(1, {});
  EXPECT_EQ(processors, bound_threads());
  EXPECT_EQ(available_threads(1, {.cpus = 0.3}), 1);
  EXPECT_EQ(available_threads(1, {.cpus = 1.5}), std::min(2, processors));
  EXPECT_EQ(available_threads(2, {.cpus = 1.5}), 1);
  EXPECT_EQ(available_threads(1000, {.cpus = 1e6}), 1);
  EXPECT_EQ(quota_text(1, {.cpus = 1e6}), "");
  if (processors == 1) return;
  EXPECT_EQ(quota_text(1, {.cpus = 0.5}),
            "a control group allows this process the time of 0.5 CPUs, so 1 thread is used by default");
}

}  // namespace
}  // namespace telar
