#include "telar/runtime/sample_exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "telar/core/error.h"

namespace telar {

struct SampleExchange::Layout {
  explicit Layout(const Node& node)
      : rank(static_cast<size_t>(node.attributes.integer("rank"))), rows(node.attributes.integers("rows")) {
    if (node.attributes.has("bounds")) bounds = node.attributes.integers("bounds");
    first.push_back(0);
    for (const int64_t samples : rows) first.push_back(first.back() + static_cast<size_t>(samples));
  }

  size_t members() const { return rows.size(); }
  size_t samples_of(size_t member) const { return static_cast<size_t>(rows[member]); }
  size_t own() const { return samples_of(rank); }
  size_t all() const { return first.back(); }
  size_t features() const { return static_cast<size_t>(bounds.back()); }
  size_t features_of(size_t member) const { return static_cast<size_t>(bounds[member + 1] - bounds[member]); }

  /// The samples of one member in a value of all samples, of `item` bytes each.
  template <typename Byte>
  std::span<Byte> of(size_t member, std::span<Byte> value, size_t item) const {
    return value.subspan(first[member] * item, samples_of(member) * item);
  }

  size_t rank;
  std::vector<int64_t> rows;
  std::vector<int64_t> bounds;
  std::vector<size_t> first;  // sample of each member
};

namespace {

/// Copies columns [begin, end) of a matrix of `row` bytes a row, from or to `packed`.
void copy_columns(std::byte* matrix, size_t rows, size_t row, size_t begin, size_t end, std::byte* packed,
                  bool out) {
  const size_t width = end - begin;
  for (size_t r = 0; r < rows; ++r) {
    std::byte* in_matrix = matrix + r * row + begin;
    std::byte* in_packed = packed + r * width;
    out ? std::memcpy(in_packed, in_matrix, width) : std::memcpy(in_matrix, in_packed, width);
  }
}

}  // namespace

void SampleExchange::run(const Node& node, std::span<const std::byte> from, std::span<std::byte> to,
                         Group& group) {
  const Layout layout(node);
  if (static_cast<size_t>(group.size()) != layout.members())
    throw run_error("{}: a group of {} exchanges among {}", node.op->name(), group.size(), layout.members());
  const std::string_view name = node.op->name();
  if (name == "all_gather_samples") {
    gather(layout, from, to, group);
  } else if (name == "reduce_scatter_samples") {
    sum(layout, from, to, group);
  } else if (name == "samples_to_features") {
    to_features(layout, from, to, group);
  } else if (name == "features_to_samples") {
    to_samples(layout, from, to, group);
  } else {
    throw run_error("'{}' is not an exchange of samples", name);
  }
}

std::vector<std::span<std::byte>> SampleExchange::parts(const std::vector<size_t>& bytes) {
  const size_t all = std::accumulate(bytes.begin(), bytes.end(), size_t{0});
  if (memory_.size() < all) memory_.resize(all);
  std::vector<std::span<std::byte>> spans;
  size_t begin = 0;
  for (const size_t size : bytes) {
    spans.push_back(std::span(memory_).subspan(begin, size));
    begin += size;
  }
  return spans;
}

void SampleExchange::gather(const Layout& layout, std::span<const std::byte> from, std::span<std::byte> to,
                            Group& group) {
  const size_t item = to.size() / layout.all();
  const auto own = from.first(layout.own() * item);
  const std::vector<std::span<const std::byte>> outgoing(layout.members(), own);
  std::vector<std::span<std::byte>> incoming;
  for (size_t m = 0; m < layout.members(); ++m) incoming.push_back(layout.of(m, to, item));
  std::copy(own.begin(), own.end(), incoming[layout.rank].begin());
  group.exchange(outgoing, incoming);
}

void SampleExchange::sum(const Layout& layout, std::span<const std::byte> from, std::span<std::byte> to,
                         Group& group) {
  const size_t item = from.size() / layout.all();
  std::vector<std::span<const std::byte>> outgoing;
  std::vector<size_t> sizes;
  for (size_t m = 0; m < layout.members(); ++m) {
    outgoing.push_back(layout.of(m, from, item));
    sizes.push_back(m == layout.rank ? 0 : layout.own() * item);
  }
  const auto incoming = parts(sizes);
  group.exchange(outgoing, incoming);
  const size_t floats = layout.own() * item / sizeof(float);
  auto* result = reinterpret_cast<float*>(to.data());
  for (size_t m = 0; m < layout.members(); ++m) {
    const std::byte* bytes = m == layout.rank ? outgoing[m].data() : incoming[m].data();
    const auto* values = reinterpret_cast<const float*>(bytes);
    for (size_t i = 0; i < floats; ++i) result[i] = m == 0 ? values[i] : result[i] + values[i];
  }
}

void SampleExchange::to_features(const Layout& layout, std::span<const std::byte> from,
                                 std::span<std::byte> to, Group& group) {
  const size_t feature = to.size() / layout.all() / layout.features_of(layout.rank);
  const size_t item = to.size() / layout.all();
  std::vector<size_t> sizes;
  for (size_t m = 0; m < layout.members(); ++m)
    sizes.push_back(layout.own() * layout.features_of(m) * feature);
  const auto packed = parts(sizes);
  std::vector<std::span<std::byte>> incoming;
  // Only read: the columns are copied out of the matrix.
  auto* matrix = const_cast<std::byte*>(from.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  for (size_t m = 0; m < layout.members(); ++m) {
    incoming.push_back(layout.of(m, to, item));
    copy_columns(matrix, layout.own(), layout.features() * feature,
                 static_cast<size_t>(layout.bounds[m]) * feature,
                 static_cast<size_t>(layout.bounds[m + 1]) * feature,
                 m == layout.rank ? incoming[m].data() : packed[m].data(), true);
  }
  const std::vector<std::span<const std::byte>> outgoing(packed.begin(), packed.end());
  group.exchange(outgoing, incoming);
}

void SampleExchange::to_samples(const Layout& layout, std::span<const std::byte> from,
                                std::span<std::byte> to, Group& group) {
  const size_t item = from.size() / layout.all();
  const size_t feature = item / layout.features_of(layout.rank);
  std::vector<size_t> sizes;
  std::vector<std::span<const std::byte>> outgoing;
  for (size_t m = 0; m < layout.members(); ++m) {
    outgoing.push_back(layout.of(m, from, item));
    sizes.push_back(layout.own() * layout.features_of(m) * feature);
  }
  const auto packed = parts(sizes);
  group.exchange(outgoing, packed);
  std::copy(outgoing[layout.rank].begin(), outgoing[layout.rank].end(), packed[layout.rank].begin());
  for (size_t m = 0; m < layout.members(); ++m) {
    copy_columns(to.data(), layout.own(), layout.features() * feature,
                 static_cast<size_t>(layout.bounds[m]) * feature,
                 static_cast<size_t>(layout.bounds[m + 1]) * feature, packed[m].data(), false);
  }
}

}  // namespace telar
