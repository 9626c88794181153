#include <algorithm>
#include <cstring>

#include "telar/core/error.h"
#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kCopiesAThread = 16384;  // elements for each thread
constexpr int64_t kColumns = 16;           // one cache line of floats: threads never write to the same line

/// The rows of a table that are here: [first, first + rows) of `vocabulary`.
struct TableRows {
  int64_t first = 0;
  int64_t rows = 0;
  int64_t vocabulary = 0;

  /// −1: the token's row is elsewhere.
  int64_t row_of(int32_t token) const {
    const int64_t row = token - first;
    return row >= 0 && row < rows ? row : -1;
  }
};

TableRows rows_of(const Node& node, int64_t rows) {
  if (!node.attributes.has("first")) return {0, rows, rows};
  return {node.attributes.integer("first"), rows, node.attributes.integer("vocabulary")};
}

void check_tokens(const int32_t* tokens, int64_t count, int64_t rows, const std::string& scope) {
  for (int64_t i = 0; i < count; ++i) {
    if (tokens[i] >= 0 && tokens[i] < rows) continue;
    throw user_error(
        "layer '{}': token {} at position {} of the batch; the table has {} rows, so tokens are 0 to {}",
        scope, tokens[i], i, rows, rows - 1);
  }
}

void lower_embedding(Lowering& lowering, const Node& node) {
  const ValueId table = node.inputs[1];
  const ValueId y = node.outputs[0];
  const TableRows rows = rows_of(node, lowering.shape(table)[0]);
  const int64_t features = lowering.shape(table)[1];
  const int64_t count = lowering.shape(node.inputs[0]).elements();
  const auto source = lowering.converted_parameter(table);
  const RegionId from = lowering.plain_region(source.value_or(table));
  const RegionId tokens = lowering.plain_region(node.inputs[0]);
  // If the table is converted to bf16, only the rows that are looked up are converted.
  const RegionId gathered =
      source ? lowering.temporary(plain(DType::f32, lowering.shape(y))) : lowering.define_plain(y);
  const auto row_bytes =
      static_cast<size_t>(features) * size_of(source ? DType::f32 : lowering.type(table).dtype);
  lowering.function({tokens, from}, {gathered}, [=, scope = node.scope](const Pointers& p) {
    const auto* token = p.get<const int32_t>(0);
    const auto* values = p.get<const std::byte>(1);
    auto* to = p.get<std::byte>(2);
    check_tokens(token, count, rows.vocabulary, scope);
    parallel_for(count, std::max<int64_t>(1, kCopiesAThread / features), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::byte* y_row = to + static_cast<size_t>(i) * row_bytes;
        const int64_t row = rows.row_of(token[i]);
        if (row < 0) {
          std::memset(y_row, 0, row_bytes);
        } else {
          std::memcpy(y_row, values + static_cast<size_t>(row) * row_bytes, row_bytes);
        }
      }
    });
  });
  if (source) lowering.reorder(gathered, lowering.define_plain(y));
}

void lower_embedding_backward(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[1];
  const ValueId dtable = node.outputs[0];
  const TableRows here = rows_of(node, lowering.shape(dtable)[0]);
  const int64_t rows = here.rows;
  const int64_t features = lowering.shape(dtable)[1];
  const int64_t count = lowering.shape(node.inputs[0]).elements();
  const std::vector<RegionId> reads{lowering.plain_region(node.inputs[0]),
                                    lowering.region(dy, plain(DType::f32, lowering.shape(dy)))};
  lowering.function(reads, {lowering.define_plain(dtable)}, [=](const Pointers& p) {
    const auto* token = p.get<const int32_t>(0);
    const auto* from = p.get<const float>(1);
    auto* to = p.get<float>(2);
    // Each thread owns some columns of the table. So the work is equal for any tokens, and sums are in the
    // order of the batch.
    const int64_t groups = (features + kColumns - 1) / kColumns;
    parallel_for(groups, std::max<int64_t>(1, kCopiesAThread / (kColumns * (rows + count))),
                 [=](int64_t first, int64_t last) {
                   const int64_t begin = first * kColumns;
                   const int64_t end = std::min(features, last * kColumns);
                   for (int64_t r = 0; r < rows; ++r)
                     std::fill(to + r * features + begin, to + r * features + end, 0.0F);
                   for (int64_t i = 0; i < count; ++i) {
                     const int64_t r = here.row_of(token[i]);
                     if (r < 0) continue;
                     float* row = to + r * features;
                     for (int64_t c = begin; c < end; ++c) row[c] += from[i * features + c];
                   }
                 });
  });
}

}  // namespace

void register_embedding(Kernels& kernels) {
  kernels.add("embedding", lower_embedding);
  kernels.add("embedding_backward", lower_embedding_backward);
  kernels.add("embedding_of_part", lower_embedding);
  kernels.add("embedding_of_part_backward", lower_embedding_backward);
}

}  // namespace telar::cpu
