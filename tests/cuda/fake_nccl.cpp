// A fake NCCL, in the module with the fake GPU. A sum blocks its stream until all members have joined it, or
// until its member's communicator is aborted. Unless NCCL_RUNTIME_CONNECT is 0, a member's first sum waits on
// the host for the other members.
#include <driver_types.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "cuda/fakes.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using telar::test::fake;
using telar::test::on_stream_when_it_can;

namespace {

using Id = std::array<char, 128>;

/// The members of a group, all in this process.
struct Meeting {
  struct Sum {
    std::map<int, std::vector<float>> values;  // of each member that has joined, by rank
    int taken = 0;
  };

  std::mutex mutex;
  std::condition_variable changed;
  int size = 0;
  int joined = 0;
  int connected = 0;
  int left = 0;
  std::map<long, Sum> sums;  // sums that some members have not received yet, by number
};

struct Member {
  std::shared_ptr<Meeting> meeting;
  int rank = 0;
  int gpu = telar::test::current_gpu();
  long begun = 0;  // sums
  long ended = 0;
  bool aborted = false;
};

/// Adds this member's values to the sum with this number, once, and reads the sum when all members have
/// joined. Returns false if some are missing.
bool sum(Member& member, long number, float* values, size_t count) {
  Meeting& meeting = *member.meeting;
  const std::lock_guard lock(meeting.mutex);
  if (member.aborted) {
    std::fill_n(values, count, std::numeric_limits<float>::quiet_NaN());
    return true;
  }
  Meeting::Sum& all = meeting.sums[number];
  all.values.try_emplace(member.rank, values, values + count);
  if (fake().nccl_error != 0 || static_cast<int>(all.values.size()) < meeting.size) return false;
  std::fill_n(values, count, 0.0F);
  for (const auto& [rank, part] : all.values)
    for (size_t i = 0; i < count; ++i) values[i] += part[i];
  ++member.ended;
  if (++all.taken == meeting.size) meeting.sums.erase(number);
  return true;
}

/// Connects when a member starts its first sum.
void connect(Meeting& meeting) {
  const char* later =
      std::getenv("NCCL_RUNTIME_CONNECT");  // NOLINT(concurrency-mt-unsafe): no thread sets it now
  if (later != nullptr && std::string_view(later) == "0") return;
  std::unique_lock lock(meeting.mutex);
  ++meeting.connected;
  meeting.changed.notify_all();
  meeting.changed.wait(lock, [&] { return meeting.connected == meeting.size; });
}

/// The number of incomplete sums enqueued on each GPU.
std::mutex summing_mutex;
std::map<int, int> summing;

void count_sum(int gpu, int more) {
  const std::lock_guard lock(summing_mutex);
  summing[gpu] += more;
}

std::mutex names_mutex;
std::map<Id, std::shared_ptr<Meeting>> meetings;

}  // namespace

bool telar::test::is_summing() {
  const std::lock_guard lock(summing_mutex);
  return summing[current_gpu()] > 0;
}

EXPORTED int ncclGetUniqueId(Id* id) {
  const std::lock_guard lock(names_mutex);
  id->fill(0);
  const size_t number = meetings.size() + 1;
  std::memcpy(id->data(), &number, sizeof(number));
  meetings[*id] = std::make_shared<Meeting>();
  return 0;
}

EXPORTED int ncclCommInitRank(void** communicator, int size, Id id, int rank) {
  std::shared_ptr<Meeting> meeting;
  {
    const std::lock_guard lock(names_mutex);
    meeting = meetings.at(id);
  }
  if (rank < 0 || rank >= size) return 4;
  std::unique_lock lock(meeting->mutex);
  meeting->size = size;
  ++meeting->joined;
  meeting->changed.notify_all();
  meeting->changed.wait(lock, [&] { return meeting->joined == size; });
  // Enqueued work may outlive the communicator.
  *communicator = new std::shared_ptr<Member>(new Member{.meeting = meeting, .rank = rank});
  return 0;
}

EXPORTED int ncclCommDestroy(void* communicator) {
  const std::unique_ptr<std::shared_ptr<Member>> member(static_cast<std::shared_ptr<Member>*>(communicator));
  Meeting& meeting = *(*member)->meeting;
  std::unique_lock lock(meeting.mutex);
  if ((*member)->ended < (*member)->begun) std::abort();
  ++meeting.left;
  meeting.changed.notify_all();
  meeting.changed.wait(lock, [&] { return meeting.left == meeting.size; });
  return 0;
}

EXPORTED int ncclCommAbort(void* communicator) {
  const std::unique_ptr<std::shared_ptr<Member>> member(static_cast<std::shared_ptr<Member>*>(communicator));
  Meeting& meeting = *(*member)->meeting;
  const std::lock_guard lock(meeting.mutex);
  (*member)->aborted = true;
  ++meeting.left;
  meeting.changed.notify_all();
  return 0;
}

EXPORTED int ncclCommGetAsyncError(void* /*communicator*/, int* error) {
  *error = fake().nccl_error;
  return 0;
}

EXPORTED int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation,
                           void* communicator, cudaStream_t stream) {
  telar::test::forbid_recording();
  if (type != 7 || operation != 0 || from != to) return 4;
  const std::shared_ptr<Member> member = *static_cast<std::shared_ptr<Member>*>(communicator);
  if (member->begun == 0) connect(*member->meeting);
  count_sum(member->gpu, 1);
  on_stream_when_it_can(stream, [=, number = member->begun++] {
    const bool done = sum(*member, number, static_cast<float*>(to), count);
    if (done) count_sum(member->gpu, -1);
    return done;
  });
  return 0;
}

EXPORTED const char* ncclGetErrorString(int /*status*/) { return "NCCL's words"; }
