#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "telar/observe/hardware.h"
#include "telar/observe/sysfs.h"

namespace telar {
namespace {

namespace fs = std::filesystem;

/// Bus addresses of NVIDIA's display and 3D controllers, whether or not a driver is loaded.
std::vector<std::string> nvidia_on_pci(const fs::path& root) {
  std::vector<std::string> found;
  for (const fs::path& device : list_folder(root / "sys/bus/pci/devices")) {
    if (read_line(device / "vendor") == "0x10de" && read_line(device / "class").starts_with("0x03")) {
      found.push_back(device.filename().string());
    }
  }
  return found;
}

NvidiaGpu read_gpu(const fs::path& folder) {
  auto fields = read_fields(folder / "information");
  const std::string minor = fields["Device Minor"];
  NvidiaGpu gpu{fields["Model"], folder.filename().string(), 0};
  std::from_chars(minor.data(), minor.data() + minor.size(), gpu.minor);
  return gpu;
}

}  // namespace

NvidiaSearch find_nvidia_gpus(const fs::path& root) {
  const fs::path driver = root / "proc/driver/nvidia";
  const auto known = list_folder(driver / "gpus");
  if (!fs::exists(driver) || known.empty()) {
    const auto on_pci = nvidia_on_pci(root);
    if (on_pci.empty()) return {{}, "no NVIDIA device on the PCI bus and no driver (/proc/driver/nvidia)"};
    return {{},
            fmt::format("an NVIDIA device is on the PCI bus ({}), but its driver is not loaded: install it",
                        on_pci.front())};
  }
  NvidiaSearch search;
  for (const fs::path& folder : known) {
    NvidiaGpu gpu = read_gpu(folder);
    const std::string node = fmt::format("nvidia{}", gpu.minor);
    if (fs::exists(root / "dev" / node)) {
      search.gpus.push_back(std::move(gpu));
    } else {
      search.not_found =
          fmt::format("the driver knows {}, but /dev/{} is missing: in a container, pass the device through",
                      gpu.model, node);
    }
  }
  std::sort(search.gpus.begin(), search.gpus.end(),
            [](const NvidiaGpu& a, const NvidiaGpu& b) { return a.minor < b.minor; });
  return search;
}

}  // namespace telar
