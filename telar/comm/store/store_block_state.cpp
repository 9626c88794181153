#include "telar/comm/store/store_block_state.h"

#include <cstring>
#include <span>

#include "telar/core/error.h"

namespace telar {
namespace {

template <typename T>
void put(std::vector<std::byte>& bytes, std::span<const T> values) {
  const auto added = std::as_bytes(values);
  bytes.insert(bytes.end(), added.begin(), added.end());
}

}  // namespace

std::vector<std::byte> encode_block_state(const StoreBlockState& state) {
  const uint64_t segments = state.segments.size();
  std::vector<std::byte> bytes;
  put(bytes, std::span(&segments, 1));
  put(bytes, std::span(state.segments));
  const std::vector<WorkRun> runs = runs_of(state.works);
  put(bytes, std::span(runs));
  if (bytes.size() > kBlockFloats * sizeof(float))
    throw run_error(
        "the {} segments of a block and the {} runs of its pieces of work do not fit into a frame", segments,
        runs.size());
  return bytes;
}

StoreBlockState decode_block_state(const FramePayload& payload) {
  std::vector<std::byte> bytes(payload.bytes());
  payload.copy_to(bytes);
  uint64_t segments = 0;
  const size_t most = bytes.size() / sizeof(StoreSegment);
  if (bytes.size() >= sizeof(segments)) std::memcpy(&segments, bytes.data(), sizeof(segments));
  const size_t before = sizeof(segments) + (segments <= most ? segments : 0) * sizeof(StoreSegment);
  if (segments == 0 || segments > most || bytes.size() < before ||
      (bytes.size() - before) % sizeof(WorkRun) != 0)
    throw user_error("the state of a block in {} bytes, which is not possible", bytes.size());
  StoreBlockState state{.segments = std::vector<StoreSegment>(segments), .works = {}};
  std::memcpy(state.segments.data(), bytes.data() + sizeof(segments), before - sizeof(segments));
  std::vector<WorkRun> runs((bytes.size() - before) / sizeof(WorkRun));
  if (!runs.empty()) std::memcpy(runs.data(), bytes.data() + before, bytes.size() - before);
  for (const WorkRun& run : runs)
    if (!add_run(state.works, run))
      throw user_error("pieces {} to {} of the work of a block, which is not possible", run.first, run.last);
  return state;
}

}  // namespace telar
