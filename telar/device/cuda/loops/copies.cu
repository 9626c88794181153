#include "telar/device/cuda/loops/copies.h"

#include "telar/device/cuda/loops/launch.h"
#include "telar/device/cuda/loops/pack.h"

namespace telar::cuda {

namespace {

/// T: a value, or a pack of values; extents then count packs.
template <typename T, typename Index>
cudaError_t copy_counted(const RowPieces& pieces, const T* from, T* to, cudaStream_t stream) {
  const auto length = static_cast<Index>(pieces.length);
  const int64_t from_pitch = pieces.from_pitch;
  const int64_t to_pitch = pieces.to_pitch;
  return for_each(pieces.rows * pieces.length, stream, [=] TELAR_GPU(int64_t i) {
    const Index row = static_cast<Index>(i) / length;
    const int64_t rest = i - static_cast<int64_t>(row * length);
    to[static_cast<int64_t>(row) * to_pitch + rest] = from[static_cast<int64_t>(row) * from_pitch + rest];
  });
}

template <typename T>
cudaError_t copy_typed(const RowPieces& pieces, const T* from, T* to, cudaStream_t stream) {
  return with_index(pieces.rows * pieces.length,
                    [&](auto index) { return copy_counted<T, decltype(index)>(pieces, from, to, stream); });
}

/// Whether packs of kWide values are possible: addresses, lengths and pitches are multiples of the pack.
template <int64_t kWide, typename T>
bool fits(const RowPieces& pieces, const T* from, const T* to) {
  return lies_for_packs(from, kWide * sizeof(T)) && lies_for_packs(to, kWide * sizeof(T)) &&
         pieces.length % kWide == 0 && pieces.from_pitch % kWide == 0 && pieces.to_pitch % kWide == 0;
}

template <int64_t kWide, typename T>
cudaError_t copy_packs(const RowPieces& pieces, const T* from, T* to, cudaStream_t stream) {
  using Wide = Pack<T, kWide>;
  const RowPieces packs{pieces.rows, pieces.length / kWide, pieces.from_pitch / kWide,
                        pieces.to_pitch / kWide};
  return copy_typed(packs, reinterpret_cast<const Wide*>(from), reinterpret_cast<Wide*>(to), stream);
}

template <typename T>
cudaError_t copy_widest(const RowPieces& pieces, const T* from, T* to, cudaStream_t stream) {
  constexpr int64_t kWidest = Pack<T>::kValues;
  if (fits<kWidest>(pieces, from, to)) return copy_packs<kWidest>(pieces, from, to, stream);
  if (fits<2>(pieces, from, to)) return copy_packs<2>(pieces, from, to, stream);
  return copy_typed(pieces, from, to, stream);
}

template <typename T, typename Index>
cudaError_t copy_walk_counted(const T* from, T* to, const LongWalk<1>& walk, cudaStream_t stream) {
  const auto steps = walk.in<Index>();
  return for_each(walk.elements(), stream,
                  [=] TELAR_GPU(int64_t i) { to[i] = from[steps.offsets(static_cast<Index>(i))[0]]; });
}

/// T: a value, or a pack of values; the walk then counts packs.
template <typename T>
cudaError_t copy_walk_typed(const T* from, T* to, const LongWalk<1>& walk, cudaStream_t stream) {
  return with_index(walk.elements(), [&](auto index) {
    return copy_walk_counted<T, decltype(index)>(from, to, walk, stream);
  });
}

/// Whether the walk keeps packs of kWide values whole: the last axis is contiguous, and all strides are
/// multiples of the pack.
template <int64_t kWide>
bool stay_whole(const LongWalk<1>& walk) {
  if (walk.axes == 0 || walk.strides[0][walk.axes - 1] != 1) return false;
  if (walk.extents[walk.axes - 1] % kWide != 0) return false;
  for (size_t axis = 0; axis + 1 < walk.axes; ++axis)
    if (walk.strides[0][axis] % kWide != 0) return false;
  return true;
}

template <int64_t kWide>
LongWalk<1> in_packs(LongWalk<1> walk) {
  walk.extents[walk.axes - 1] /= kWide;
  for (size_t axis = 0; axis + 1 < walk.axes; ++axis) walk.strides[0][axis] /= kWide;
  return walk;
}

template <typename T>
cudaError_t copy_walk_widest(const T* from, T* to, const LongWalk<1>& walk, cudaStream_t stream) {
  using Wide = Pack<T>;
  constexpr int64_t kWide = Wide::kValues;
  if (lies_for_packs(from) && lies_for_packs(to) && stay_whole<kWide>(walk)) {
    return copy_walk_typed(reinterpret_cast<const Wide*>(from), reinterpret_cast<Wide*>(to),
                           in_packs<kWide>(walk), stream);
  }
  return copy_walk_typed(from, to, walk, stream);
}

/// Integers are copied as floats, which have their size.
DType copied_as(DType dtype) { return dtype == DType::i32 ? DType::f32 : dtype; }

}  // namespace

cudaError_t copy_pieces(const RowPieces& pieces, const void* from, int64_t from_begin, void* to,
                        int64_t to_begin, DType dtype, cudaStream_t stream) {
  return with_type(copied_as(dtype), [&](auto type) {
    using T = decltype(type);
    return copy_widest(pieces, static_cast<const T*>(from) + from_begin, static_cast<T*>(to) + to_begin,
                       stream);
  });
}

cudaError_t copy_walked(const void* x, void* y, DType dtype, const LongWalk<1>& walk, cudaStream_t stream) {
  return with_type(copied_as(dtype), [&](auto type) {
    using T = decltype(type);
    return copy_walk_widest(static_cast<const T*>(x), static_cast<T*>(y), walk, stream);
  });
}

cudaError_t fill(float* y, int64_t count, float value, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = value; });
}

}  // namespace telar::cuda
