#include "telar/observe/energy.h"

#include <gtest/gtest.h>

#include "io/temp_folder.h"
#include "support/paths.h"

namespace telar {
namespace {

using test::TempFolder;
using test::write_text;

const std::string kNoGpus = "libtelar-no-such-library.so";

/// The files in which Linux shows the energy of an Intel server's two packages and their memory.
class Powercap {
 public:
  const std::filesystem::path& root() const { return folder_.path(); }
  void set(const std::string& zone, const std::string& name, uint64_t microjoules) {
    const std::string path = "sys/class/powercap/" + zone + "/";
    write_text(folder_ / (path + "name"), name + "\n");
    write_text(folder_ / (path + "max_energy_range_uj"), "262143328850\n");
    write_text(folder_ / (path + "energy_uj"), std::to_string(microjoules) + "\n");
  }

 private:
  TempFolder folder_;
};

TEST(EnergyMeter, AddsPackagesAndTheirMemoryButNothingTwice) {
  Powercap host;
  host.set("intel-rapl:0", "package-0", 1'000'000);
  host.set("intel-rapl:0:0", "core", 500'000);
  host.set("intel-rapl:0:1", "dram", 200'000);
  host.set("intel-rapl:1", "package-1", 7'000'000);
  host.set("intel-rapl:2", "psys", 1);
  host.set("intel-rapl-mmio:0", "package-0", 1);
  EnergyMeter meter(host.root(), kNoGpus);
  EXPECT_EQ(meter.source(), "RAPL (package-0, dram, package-1)");
  EXPECT_EQ(meter.missing(), "");
  EXPECT_EQ(meter.joules(), 0.0);
  host.set("intel-rapl:0", "package-0", 3'000'000);
  host.set("intel-rapl:0:0", "core", 9'000'000);
  host.set("intel-rapl:0:1", "dram", 300'000);
  host.set("intel-rapl:1", "package-1", 7'500'000);
  host.set("intel-rapl:2", "psys", 9'000'000);
  host.set("intel-rapl-mmio:0", "package-0", 9'000'000);
  EXPECT_NEAR(*meter.joules(), 2.6, 1e-9);
  EXPECT_NEAR(*meter.joules(), 2.6, 1e-9);
}

TEST(EnergyMeter, HandlesACounterThatWrapsAround) {
  Powercap host;
  host.set("intel-rapl:0", "package-0", 262143000000);
  EnergyMeter meter(host.root(), kNoGpus);
  host.set("intel-rapl:0", "package-0", 1'671'150);
  EXPECT_NEAR(*meter.joules(), 2.0, 1e-9);
  host.set("intel-rapl:0", "package-0", 2'671'150);
  EXPECT_NEAR(*meter.joules(), 3.0, 1e-9);
}

TEST(EnergyMeter, ReadsAmdSocketsThroughHwmon) {
  const TempFolder host;
  const auto set = [&](const std::string& file, const std::string& text) {
    write_text(host / ("sys/class/hwmon/hwmon3/" + file), text + "\n");
  };
  set("name", "amd_energy");
  set("energy1_label", "Ecore000");
  set("energy1_input", "5000000");
  set("energy2_label", "Esocket0");
  set("energy2_input", "9000000");
  EnergyMeter meter(host.path(), kNoGpus);
  EXPECT_EQ(meter.source(), "hwmon amd_energy (Esocket0)");
  set("energy1_input", "6000000");
  set("energy2_input", "9500000");
  EXPECT_NEAR(*meter.joules(), 0.5, 1e-9);
}

TEST(EnergyMeter, AddsGpusThatHaveACounter) {
  Powercap host;
  host.set("intel-rapl:0", "package-0", 1'000'000);
  EnergyMeter meter(host.root(), test::fake_nvml());
  EXPECT_EQ(meter.source(), "RAPL (package-0), NVML (NVIDIA Test)");
  host.set("intel-rapl:0", "package-0", 2'000'000);
  EXPECT_NEAR(*meter.joules(), 2.5, 1e-9);
  const TempFolder no_rapl;
  EnergyMeter gpus(no_rapl.path(), test::fake_nvml());
  EXPECT_EQ(gpus.source(), "NVML (NVIDIA Test)");
  EXPECT_EQ(gpus.missing(), "");
  EXPECT_NEAR(*gpus.joules(), 1.5, 1e-9);
  EXPECT_NEAR(*gpus.joules(), 3.0, 1e-9);
}

TEST(EnergyMeter, HasNoValueWithoutACounter) {
  const TempFolder host;
  EnergyMeter meter(host.path(), kNoGpus);
  EXPECT_EQ(meter.source(), "");
  EXPECT_NE(meter.missing(), "");
  EXPECT_FALSE(meter.joules());
}

TEST(EnergyMeter, KeepsTheEnergyOfACounterThatFails) {
  Powercap host;
  host.set("intel-rapl:0", "package-0", 1'000'000);
  EnergyMeter meter(host.root(), kNoGpus);
  std::filesystem::remove(host.root() / "sys/class/powercap/intel-rapl:0/energy_uj");
  EXPECT_NEAR(*meter.joules(), 0.0, 1e-9);
  host.set("intel-rapl:0", "package-0", 4'000'000);
  EXPECT_NEAR(*meter.joules(), 3.0, 1e-9);
}

}  // namespace
}  // namespace telar
