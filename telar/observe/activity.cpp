#include "telar/observe/activity.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <string>

namespace telar {

namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double processor_seconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

}  // namespace

OthersActivity::OthersActivity(const std::filesystem::path& root)
    : stat_(root / "proc/stat"), start_(read()) {}

OthersActivity::Reading OthersActivity::read() const {
  // The fields are: user nice system idle iowait irq softirq steal
  std::array<double, 8> ticks{};
  std::ifstream stream(stat_);
  std::string cpu;
  stream >> cpu;
  for (double& tick : ticks) stream >> tick;
  constexpr size_t kIdle = 3;
  constexpr size_t kWaiting = 4;
  double busy = 0;
  for (size_t i = 0; i < ticks.size(); ++i) busy += i == kIdle || i == kWaiting ? 0 : ticks[i];
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now().time_since_epoch();
  return {busy / static_cast<double>(sysconf(_SC_CLK_TCK)),
          processor_seconds(RUSAGE_SELF) + processor_seconds(RUSAGE_CHILDREN), wall.count()};
}

double OthersActivity::processors() const {
  const Reading now = read();
  const double wall = now.wall - start_.wall;
  if (wall <= 0 || now.busy <= 0) return 0;
  return std::max(0.0, (now.busy - start_.busy) - (now.mine - start_.mine)) / wall;
}

}  // namespace telar
