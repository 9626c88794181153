// oneDNN asks OpenMP to run its regions. On a thread that computes for a telar device, its calls come here,
// because a program's own functions come before those of the libraries that it loads. All other calls are
// passed on to the OpenMP library.
#include <dlfcn.h>
#include <omp.h>

#include "telar/core/signal_stack.h"
#include "telar/device/cpu/team.h"

namespace telar::cpu {

namespace {

thread_local int on_team = 0;  ///< depth of OnTeam on this thread

template <typename Function>
Function* library_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool in_region() { return Team::place().team != nullptr; }

}  // namespace

OnTeam::OnTeam() {
  give_signals_a_stack();
  ++on_team;
}
OnTeam::~OnTeam() { --on_team; }

}  // namespace telar::cpu

using telar::cpu::Team;

// The libraries find only symbols that are not hidden.
#pragma GCC visibility push(default)

extern "C" {

// Own names here, because compilers declare these functions differently; the symbols are OpenMP's.
int telar_num_threads() __asm__("omp_get_num_threads");
int telar_thread_num() __asm__("omp_get_thread_num");
int telar_in_parallel() __asm__("omp_in_parallel");

/// Called for "#pragma omp parallel" (GCC's libgomp ABI): every thread of the team calls work(data).
void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags) {
  using Parallel = void(void (*)(void*), void*, unsigned, unsigned);
  static auto* const library = telar::cpu::library_function<Parallel>("GOMP_parallel");
  if (telar::cpu::on_team == 0 && !telar::cpu::in_region()) return library(work, data, threads, flags);
  Team& team = Team::of_this_thread();
  const int members = threads == 0 ? omp_get_max_threads() : static_cast<int>(threads);
  if (members > team.size() && !telar::cpu::in_region()) return library(work, data, threads, flags);
  team.run_parts(members, work, data, Team::Parts::waiting);
}

void GOMP_barrier() {
  using Barrier = void();
  static auto* const library = telar::cpu::library_function<Barrier>("GOMP_barrier");
  telar::cpu::in_region() ? Team::place().team->barrier() : library();
}

int telar_num_threads() {
  static auto* const library = telar::cpu::library_function<int()>("omp_get_num_threads");
  return telar::cpu::in_region() ? Team::place().members : library();
}

int telar_thread_num() {
  static auto* const library = telar::cpu::library_function<int()>("omp_get_thread_num");
  return telar::cpu::in_region() ? Team::place().member : library();
}

int telar_in_parallel() {
  static auto* const library = telar::cpu::library_function<int()>("omp_in_parallel");
  return telar::cpu::in_region() ? static_cast<int>(Team::place().members > 1) : library();
}

}  // extern "C"

#pragma GCC visibility pop
