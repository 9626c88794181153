#include "telar/device/cuda/loops/embedding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "telar/device/cuda/loops/launch.h"
#include "telar/device/cuda/loops/pack.h"
#include "telar/device/cuda/loops/vectors.h"
#include "telar/device/cuda/loops/walk.h"

namespace telar::cuda {

namespace {

/// Copies W features of a token for each index. `Index` counts all features of all tokens.
template <typename In, typename Out, typename Index, int W>
struct LookUp {
  const int32_t* tokens;
  const In* table;
  Out* y;
  int64_t rows;
  int64_t features;

  TELAR_GPU void operator()(int64_t i) const {
    const auto groups = static_cast<Index>(features / W);
    const Index token = static_cast<Index>(i) / groups;
    const int64_t feature = (i - static_cast<int64_t>(token * groups)) * W;
    const int64_t row = tokens[token];
    Values<W> found;
    if (row >= 0 && row < rows) {
      found = load<W>(table + row * features + feature);
    } else {
      for (int v = 0; v < W; ++v) found.of[v] = NAN;
    }
    store(y + static_cast<int64_t>(token) * features + feature, found);
  }
};

template <typename In, typename Out, int W>
cudaError_t look_up_packed(const Lookup& lookup, const int32_t* tokens, const void* table, void* y,
                           cudaStream_t stream) {
  return with_index(lookup.tokens * lookup.features, [&](auto index) {
    return for_each(lookup.tokens * lookup.features / W, stream,
                    LookUp<In, Out, decltype(index), W>{tokens, static_cast<const In*>(table),
                                                        static_cast<Out*>(y), lookup.rows, lookup.features});
  });
}

template <typename In, typename Out>
cudaError_t look_up_typed(const Lookup& lookup, const int32_t* tokens, const void* table, void* y,
                          cudaStream_t stream) {
  constexpr int kFeatures = 4;
  const bool packed = lookup.features % kFeatures == 0 &&
                      lies_for_packs(table, sizeof(Packed<In, kFeatures>)) &&
                      lies_for_packs(y, sizeof(Packed<Out, kFeatures>));
  if (packed) return look_up_packed<In, Out, kFeatures>(lookup, tokens, table, y, stream);
  return look_up_packed<In, Out, 1>(lookup, tokens, table, y, stream);
}

/// Sums over places that are sorted by their row in the table and divided into pieces. Each piece is
/// processed in order, so the time does not depend on how often a row occurs. A row within one piece is
/// written at once. For a row that spans several pieces, each piece stores a partial sum. The piece in which
/// the row begins adds them up afterwards.
template <typename T>
struct SortedSums {
  static constexpr int64_t kAhead = 8;
  const T* dy;
  const uint32_t* rows;    // sorted
  const uint32_t* places;  // indices of the tokens, in the same order
  // [pieces, 2, features]: of the row continued from the previous piece, and of the row continued in the
  // next.
  float* sums;
  float* dtable;
  int64_t tokens;
  int64_t table_rows;
  int64_t features;
  int64_t each;  // tokens in a piece

  TELAR_GPU bool goes_on(int64_t end) const { return end < tokens && rows[end] == rows[end - 1]; }
  TELAR_GPU void write(uint32_t row, int64_t feature, float sum) const {
    if (row < table_rows) dtable[static_cast<int64_t>(row) * features + feature] = sum;
  }

  TELAR_GPU void sum_piece(int64_t piece, int64_t feature) const {
    const int64_t begin = piece * each;
    const int64_t end = begin + each < tokens ? begin + each : tokens;
    bool came_over = begin > 0 && goes_on(begin);
    float sum = 0;
    for (int64_t t = begin; t < end; t += kAhead) {
      // Read together: the compiler must assume that the store below changes the values read next.
      float ahead[kAhead];
      for (int64_t k = 0; k < kAhead; ++k)
        ahead[k] = t + k < end ? to_float(dy[static_cast<int64_t>(places[t + k]) * features + feature]) : 0;
      for (int64_t k = 0; k < kAhead && t + k < end; ++k) {
        sum += ahead[k];
        if (t + k + 1 < end && rows[t + k + 1] == rows[t + k]) continue;
        leave(piece, feature, t + k, came_over, end, sum);
        came_over = false;
        sum = 0;
      }
    }
  }

  /// Stores the sum of a row whose last token in this piece, which ends before `end`, is `last`.
  TELAR_GPU void leave(int64_t piece, int64_t feature, int64_t last, bool came_over, int64_t end,
                       float sum) const {
    if (came_over) {
      sums[2 * piece * features + feature] = sum;
    } else if (last + 1 == end && goes_on(end)) {
      sums[(2 * piece + 1) * features + feature] = sum;
    } else {
      write(rows[last], feature, sum);
    }
  }

  /// Adds up the sums of the row that begins in this piece and continues in the next.
  TELAR_GPU void join(int64_t piece, int64_t feature) const {
    const int64_t begin = piece * each;
    int64_t end = begin + each;
    if (!goes_on(end < tokens ? end : tokens)) return;
    const uint32_t row = rows[end - 1];
    if (begin > 0 && rows[begin - 1] == row) return;  // the row began in an earlier piece
    float sum = sums[(2 * piece + 1) * features + feature];
    for (int64_t next = piece + 1; end < tokens && rows[end] == row; ++next) {
      sum += sums[2 * next * features + feature];
      end += each;
    }
    write(row, feature, sum);
  }
};

/// A square root, so that a long row takes as many steps within a piece as there are pieces to join.
int64_t tokens_of_piece(int64_t tokens) {
  constexpr double kLeast = 32;
  return static_cast<int64_t>(std::max(kLeast, std::ceil(std::sqrt(static_cast<double>(tokens)))));
}

int64_t pieces_of(int64_t tokens) { return (tokens + tokens_of_piece(tokens) - 1) / tokens_of_piece(tokens); }

#ifdef __CUDACC__
/// Sorts the places by their keys, stably. If `memory` is null, returns the required size in `bytes`.
cudaError_t sort_places(const Lookup& lookup, void* memory, size_t& bytes, const uint32_t* keys,
                        uint32_t* sorted_keys, const uint32_t* places, uint32_t* sorted_places,
                        cudaStream_t stream) {
  int bits = 1;
  while (lookup.rows >> bits != 0) ++bits;  // keys are 0 … rows
  return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, sorted_keys, places, sorted_places,
                                         lookup.tokens, 0, bits, stream);
}
#else
cudaError_t sort_places(const Lookup& lookup, void* memory, size_t& bytes, const uint32_t* keys,
                        uint32_t* sorted_keys, const uint32_t* places, uint32_t* sorted_places,
                        cudaStream_t stream) {
  bytes = 1;
  if (memory == nullptr) return cudaSuccess;
  test::on_stream(stream, [=, tokens = lookup.tokens] {
    uint32_t* end = std::copy_n(places, tokens, sorted_places);
    std::stable_sort(sorted_places, end, [=](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
    std::transform(sorted_places, end, sorted_keys, [=](uint32_t place) { return keys[place]; });
  });
  return cudaSuccess;
}
#endif

/// Arrays in the memory of a backward look-up.
struct Memory {
  uint32_t *keys, *sorted_keys, *places, *sorted_places;
  float* sums;
  void* sorting;
};

constexpr size_t kAlignment = 256;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t bytes_of_tokens(const Lookup& lookup) {
  return aligned(static_cast<size_t>(lookup.tokens) * sizeof(uint32_t));
}

size_t bytes_of_sums(const Lookup& lookup) {
  return aligned(static_cast<size_t>(pieces_of(lookup.tokens) * 2 * lookup.features) * sizeof(float));
}

Memory parts_of(std::byte* memory, const Lookup& lookup) {
  const auto tokens = [&](size_t i) {
    return reinterpret_cast<uint32_t*>(memory + i * bytes_of_tokens(lookup));
  };
  std::byte* sums = memory + 4 * bytes_of_tokens(lookup);
  return {tokens(0),
          tokens(1),
          tokens(2),
          tokens(3),
          reinterpret_cast<float*>(sums),
          sums + bytes_of_sums(lookup)};
}

/// A token that is not in the table gets the key after the last row.
cudaError_t make_keys(const Lookup& lookup, const int32_t* tokens, const Memory& memory,
                      cudaStream_t stream) {
  const int64_t rows = lookup.rows;
  uint32_t* keys = memory.keys;
  uint32_t* places = memory.places;
  return for_each(lookup.tokens, stream, [=] TELAR_GPU(int64_t i) {
    const int64_t row = tokens[i];
    keys[i] = static_cast<uint32_t>(row >= 0 && row < rows ? row : rows);
    places[i] = static_cast<uint32_t>(i);
  });
}

template <typename T>
cudaError_t sum_sorted(const Lookup& lookup, const void* dy, float* dtable, const Memory& memory,
                       cudaStream_t stream) {
  const int64_t features = lookup.features;
  const int64_t pieces = pieces_of(lookup.tokens);
  const SortedSums<T> sums{static_cast<const T*>(dy),
                           memory.sorted_keys,
                           memory.sorted_places,
                           memory.sums,
                           dtable,
                           lookup.tokens,
                           lookup.rows,
                           features,
                           tokens_of_piece(lookup.tokens)};
  const cudaError_t status = for_each(
      pieces * features, stream, [=] TELAR_GPU(int64_t i) { sums.sum_piece(i / features, i % features); });
  if (status != cudaSuccess) return status;
  return for_each(pieces * features, stream,
                  [=] TELAR_GPU(int64_t i) { sums.join(i / features, i % features); });
}

}  // namespace

cudaError_t look_up(const Lookup& lookup, const int32_t* tokens, const void* table, DType from, void* y,
                    DType to, cudaStream_t stream) {
  return with_type(from, [&](auto in) {
    return with_type(to, [&](auto out) {
      return look_up_typed<decltype(in), decltype(out)>(lookup, tokens, table, y, stream);
    });
  });
}

cudaError_t look_up_backward_memory(const Lookup& lookup, size_t& bytes) {
  size_t sorting = 0;
  const cudaError_t status =
      sort_places(lookup, nullptr, sorting, nullptr, nullptr, nullptr, nullptr, nullptr);
  bytes = 4 * bytes_of_tokens(lookup) + bytes_of_sums(lookup) + sorting;
  return status;
}

cudaError_t look_up_backward(const Lookup& lookup, const int32_t* tokens, const void* dy, DType dtype,
                             float* dtable, std::byte* memory, size_t bytes, cudaStream_t stream) {
  const Memory parts = parts_of(memory, lookup);
  size_t sorting = bytes - 4 * bytes_of_tokens(lookup) - bytes_of_sums(lookup);
  const size_t table_bytes = static_cast<size_t>(lookup.rows * lookup.features) * sizeof(float);
  cudaError_t status = cudaMemsetAsync(dtable, 0, table_bytes, stream);
  if (status == cudaSuccess) status = make_keys(lookup, tokens, parts, stream);
  if (status == cudaSuccess) {
    status = sort_places(lookup, parts.sorting, sorting, parts.keys, parts.sorted_keys, parts.places,
                         parts.sorted_places, stream);
  }
  if (status != cudaSuccess) return status;
  return with_type(dtype,
                   [&](auto type) { return sum_sorted<decltype(type)>(lookup, dy, dtable, parts, stream); });
}

}  // namespace telar::cuda
