#include "telar/device/cuda/nccl.h"

#include <dlfcn.h>

#include <cstdlib>

#include "telar/core/error.h"

namespace telar::cuda {

namespace {

constexpr const char* kLibrary = "libnccl.so.2";
constexpr int kFloat32 = 7;     // ncclFloat32
constexpr int kSum = 0;         // ncclSum
constexpr int kInProgress = 7;  // ncclInProgress: no error

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw user_error("{} has no {}; NCCL 2 is required", kLibrary, name);
}

}  // namespace

Nccl::Nccl() : library_(::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) throw user_error("NCCL cannot be loaded: {}", ::dlerror());
  // Connect all members when they join. Otherwise NCCL connects them in their first sums. It would then wait
  // on the host for a missing member, and nothing could end that.
  ::setenv("NCCL_RUNTIME_CONNECT", "0",
           0);  // NOLINT(concurrency-mt-unsafe): changes the environment only once
  find(library_, "ncclGetUniqueId", get_unique_id_);
  find(library_, "ncclCommInitRank", comm_init_rank_);
  find(library_, "ncclCommDestroy", comm_destroy_);
  find(library_, "ncclCommAbort", comm_abort_);
  find(library_, "ncclCommGetAsyncError", comm_get_async_error_);
  find(library_, "ncclAllReduce", all_reduce_);
  find(library_, "ncclGetErrorString", get_error_string_);
}

void Nccl::check(int status, const char* what) const {
  if (status != 0) throw run_error("NCCL: {} failed: {}", what, get_error_string_(status));
}

Nccl::Id Nccl::new_id() const {
  Id id{};
  check(get_unique_id_(&id), "creating a group's name");
  return id;
}

Nccl::Communicator Nccl::join(const Id& id, int rank, int size) const {
  Communicator communicator = nullptr;
  check(comm_init_rank_(&communicator, size, id, rank), "joining a group");
  return communicator;
}

void Nccl::leave(Communicator communicator) const { comm_destroy_(communicator); }

void Nccl::abort(Communicator communicator) const { comm_abort_(communicator); }

void Nccl::check(Communicator communicator) const {
  int error = 0;
  check(comm_get_async_error_(communicator, &error), "querying the group's state");
  if (error != kInProgress) check(error, "a sum");
}

void Nccl::all_reduce(float* values, size_t count, Communicator communicator, cudaStream_t stream) const {
  check(all_reduce_(values, values, count, kFloat32, kSum, communicator, stream), "a sum");
}

}  // namespace telar::cuda
