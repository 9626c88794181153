#include "telar/bench/crew.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace telar::bench {

namespace {

void stay_on_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  sched_setaffinity(0, sizeof(set), &set);  // best effort: a container may forbid it
}

}  // namespace

Crew::Crew(int size) : team_(size), threads_(size) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (size > 1) run([cores](const Group& group) { stay_on_core(group.rank() % cores); });
}

void Crew::run(const Work& work) {
  try {
    threads_.run([&](int rank) { work(team_.member(rank)); }, [this](int rank) { team_.fail(rank); });
  } catch (...) {
    team_.reset();
    throw;
  }
}

Times Crew::time(double seconds, const Work& prepare, const Work& work) {
  Times times;
  std::atomic<bool> enough = false;
  run([&](Group& group) {
    const auto begin = [&] {
      prepare(group);
      group.barrier();
    };
    const auto end = [&] {
      work(group);
      group.barrier();
    };
    if (group.rank() == 0) {
      times = time_calls(seconds, begin, end);
      enough = true;
      group.barrier();
      return;
    }
    for (begin(); !enough; begin()) end();
  });
  return times;
}

}  // namespace telar::bench
