#include "telar/runtime/batch_parts.h"

#include "telar/runtime/shares.h"

namespace telar {

namespace {

size_t item_bytes(const Graph& graph, const char* input) {
  if (!graph.has(ValueKind::input, input)) return 0;
  const TensorType& type = graph.value(graph.find(ValueKind::input, input)).type;
  return static_cast<size_t>(type.shape.elements_per_item()) * size_of(type.dtype);
}

}  // namespace

SampleBytes sample_bytes(const Graph& graph) { return {item_bytes(graph, "x"), item_bytes(graph, "label")}; }

std::vector<BatchView> split_batch(const BatchView& batch, const SampleBytes& bytes,
                                   const std::vector<double>& shares) {
  std::vector<BatchView> parts;
  int64_t begin = 0;
  for (const int64_t size : split_by_shares(batch.size, shares)) {
    const auto offset = static_cast<size_t>(begin);
    const auto advance = [&](const void* base, size_t item) -> const void* {
      return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + offset * item;
    };
    parts.push_back({size, advance(batch.x, bytes.x), advance(batch.label, bytes.label),
                     batch.sample == nullptr ? nullptr : batch.sample + begin, batch.again});
    begin += size;
  }
  return parts;
}

std::vector<int64_t> samples_of_workers(int64_t samples, int processes, int local) {
  const std::vector<double> equal(static_cast<size_t>(local), 1.0);
  std::vector<int64_t> all;
  for (int64_t p = 0; p < processes; ++p) {
    const int64_t of_process = samples * (p + 1) / processes - samples * p / processes;
    for (const int64_t part : split_by_shares(of_process, equal)) all.push_back(part);
  }
  return all;
}

}  // namespace telar
