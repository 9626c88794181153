#include "telar/observe/energy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>

#include "telar/observe/sysfs.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

std::optional<uint64_t> read_counter(const fs::path& path) {
  std::ifstream stream(path);
  uint64_t value = 0;
  if (stream >> value) return value;
  return std::nullopt;
}

}  // namespace

EnergyMeter::EnergyMeter(const fs::path& root, const std::string& nvml) : nvml_(nvml) {
  add_source("RAPL", find_rapl(root / "sys/class/powercap"));
  if (counters_.empty()) add_source("hwmon amd_energy", find_hwmon(root / "sys/class/hwmon"));
  add_source("NVML", find_gpus());
  if (!counters_.empty()) {
    missing_.clear();
  } else if (missing_.empty()) {
    missing_ =
        "this machine has no energy counter (RAPL in /sys/class/powercap, amd_energy in /sys/class/hwmon, NVML)";
  }
}

void EnergyMeter::add_source(const std::string& kind, const Names& names) {
  if (!names.empty())
    source_ += fmt::format("{}{} ({})", source_.empty() ? "" : ", ", kind, fmt::join(names, ", "));
}

EnergyMeter::Names EnergyMeter::find_gpus() {
  for (size_t gpu = 0; gpu < nvml_.names().size(); ++gpu) {
    const auto read = [this, gpu]() -> std::optional<uint64_t> {
      const std::optional<uint64_t> millijoules = nvml_.millijoules(gpu);
      return millijoules ? std::optional(1000 * *millijoules) : std::nullopt;
    };
    if (const auto value = read()) counters_.push_back({read, 0, *value});
  }
  return nvml_.names();
}

/// Adds packages, and memory if it has a separate counter. (Core and uncore are parts of a package, "psys" is
/// the whole machine including the packages, and "intel-rapl-mmio" counts packages a second time.)
EnergyMeter::Names EnergyMeter::find_rapl(const fs::path& powercap) {
  Names names;
  for (const fs::path& zone : list_folder(powercap)) {
    const std::string folder = zone.filename().string();
    const std::string name = read_line(zone / "name");
    if (!folder.starts_with("intel-rapl:")) continue;
    if (!name.starts_with("package-") && name != "dram") continue;
    const auto range = read_counter(zone / "max_energy_range_uj");
    add(zone / "energy_uj", range.value_or(0), name, names);
  }
  return names;
}

EnergyMeter::Names EnergyMeter::find_hwmon(const fs::path& hwmon) {
  Names names;
  for (const fs::path& device : list_folder(hwmon)) {
    if (read_line(device / "name") != "amd_energy") continue;
    for (const fs::path& file : list_folder(device)) {
      const std::string name = file.filename().string();
      if (!name.starts_with("energy") || !name.ends_with("_input")) continue;
      const std::string label = read_line(device / (name.substr(0, name.find('_')) + "_label"));
      if (label.starts_with("Esocket")) add(file, 0, label, names);
    }
  }
  return names;
}

void EnergyMeter::add(const fs::path& file, uint64_t range, const std::string& name, Names& names) {
  const auto value = read_counter(file);
  if (!value) {
    missing_ = fmt::format("{} exists, but this user may not read it", file.string());
    return;
  }
  counters_.push_back({[file] { return read_counter(file); }, range, *value});
  names.push_back(name);
}

std::optional<double> EnergyMeter::joules() {
  if (counters_.empty()) return std::nullopt;
  for (Counter& counter : counters_) {
    const auto now = counter.microjoules();
    if (!now) continue;  // the next reading will include its part
    uint64_t used = *now - counter.last;
    if (*now < counter.last && counter.range > 0) used = counter.range - counter.last + *now;
    microjoules_ += static_cast<double>(used);
    counter.last = *now;
  }
  return microjoules_ / 1e6;
}

}  // namespace telar
