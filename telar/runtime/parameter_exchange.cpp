#include "telar/runtime/parameter_exchange.h"

#include <algorithm>
#include <array>

#include "telar/core/error.h"
#include "telar/graph/piece.h"

namespace telar {

class ParameterExchange::Layout {
 public:
  /// `wholes`: bytes of the whole values.
  Layout(const Node& node, const std::vector<size_t>& wholes, int rank)
      : rank_(static_cast<size_t>(rank)), members_(static_cast<size_t>(node.attributes.integer("members"))) {
    const std::vector<int64_t>& extents = node.attributes.integers("extents");
    for (size_t i = 0; i < wholes.size(); ++i) {
      std::vector<size_t>& bounds = bounds_.emplace_back();
      const size_t row = wholes[i] / static_cast<size_t>(extents[i]);
      for (const int64_t bound : equal_parts(extents[i], static_cast<int64_t>(members_)))
        bounds.push_back(static_cast<size_t>(bound) * row);
    }
  }

  size_t rank() const { return rank_; }
  size_t members() const { return members_; }
  size_t values() const { return bounds_.size(); }
  /// Bytes of all pieces of a member.
  size_t bytes_of(size_t member) const {
    size_t bytes = 0;
    for (const auto& bounds : bounds_) bytes += bounds[member + 1] - bounds[member];
    return bytes;
  }
  /// Of the member that has most, and of all of them.
  size_t most_bytes() const {
    size_t most = 0;
    for (size_t m = 0; m < members_; ++m) most = std::max(most, bytes_of(m));
    return most;
  }
  size_t all_bytes() const {
    size_t bytes = 0;
    for (const auto& bounds : bounds_) bytes += bounds.back();
    return bytes;
  }
  /// The piece of a member in the whole value i.
  template <typename Byte>
  std::span<Byte> piece(size_t i, size_t member, std::span<Byte> whole) const {
    return whole.subspan(bounds_[i][member], bounds_[i][member + 1] - bounds_[i][member]);
  }

 private:
  size_t rank_;
  size_t members_;
  std::vector<std::vector<size_t>> bounds_;  // in bytes, of each value
};

namespace {

std::vector<size_t> sizes_of(const auto& values) {
  std::vector<size_t> sizes;
  for (const auto& value : values) sizes.push_back(value.size());
  return sizes;
}

/// sum += values, or sum = values for the first member.
void add(std::span<const std::byte> values, bool first, std::span<std::byte> sum) {
  const auto* from = reinterpret_cast<const float*>(values.data());
  auto* to = reinterpret_cast<float*>(sum.data());
  const size_t count = sum.size() / sizeof(float);
  if (first) {
    std::copy_n(from, count, to);
    return;
  }
#pragma omp simd
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

void ParameterExchange::run(const Node& node, HostOperations::Inputs inputs, HostOperations::Outputs outputs,
                            Group& group) {
  const bool gathers = node.op->name() == "all_gather_parameters";
  if (!gathers && node.op->name() != "reduce_scatter_gradients")
    throw run_error("'{}' is not an exchange of parameters", node.op->name());
  const Layout layout(node, gathers ? sizes_of(outputs) : sizes_of(inputs), group.rank());
  if (static_cast<size_t>(group.size()) != layout.members())
    throw run_error("{}: a group of {} exchanges among {}", node.op->name(), group.size(), layout.members());
  if (Windows* windows = group.windows(gathers ? layout.most_bytes() : layout.all_bytes())) {
    gathers ? gather_in(*windows, layout, inputs, outputs) : sum_in(*windows, layout, inputs, outputs);
  } else {
    gathers ? gather(layout, inputs, outputs, group) : sum(layout, inputs, outputs, group);
  }
}

// In windows, each value is copied once by the member that has it, and once by each that needs it.

void ParameterExchange::gather_in(Windows& windows, const Layout& layout, HostOperations::Inputs inputs,
                                  HostOperations::Outputs outputs) {
  auto to = windows.own().begin();
  for (size_t i = 0; i < layout.values(); ++i) {
    to = std::ranges::copy(inputs[i], to).out;
    std::ranges::copy(inputs[i], layout.piece(i, layout.rank(), outputs[i]).begin());
  }
  windows.meet();
  for (size_t m = 0; m < layout.members(); ++m) {
    std::span<const std::byte> from = windows.of(static_cast<int>(m));
    for (size_t i = 0; m != layout.rank() && i < layout.values(); ++i) {
      const std::span<std::byte> piece = layout.piece(i, m, outputs[i]);
      std::ranges::copy(from.first(piece.size()), piece.begin());
      from = from.subspan(piece.size());
    }
  }
}

void ParameterExchange::sum_in(Windows& windows, const Layout& layout, HostOperations::Inputs inputs,
                               HostOperations::Outputs outputs) {
  std::span<std::byte> own = windows.own();
  for (size_t i = 0; i < layout.values(); ++i) {
    for (size_t m = 0; m < layout.members(); ++m) {
      if (m == layout.rank()) continue;
      std::ranges::copy(layout.piece(i, m, inputs[i]), layout.piece(i, m, own).begin());
    }
    own = own.subspan(inputs[i].size());
  }
  windows.meet();
  for (size_t m = 0; m < layout.members(); ++m) {
    std::span<const std::byte> from = windows.of(static_cast<int>(m));
    for (size_t i = 0; i < layout.values(); ++i) {
      add(layout.piece(i, layout.rank(), m == layout.rank() ? inputs[i] : from), m == 0, outputs[i]);
      from = from.subspan(inputs[i].size());
    }
  }
}

std::span<std::byte> ParameterExchange::memory(size_t bytes) {
  if (memory_.size() < bytes) memory_.resize(bytes);
  return std::span(memory_).first(bytes);
}

// In messages, one value passes without a copy on the way. Several values pass packed, one piece after the
// other, so that the members wait for each other only once.

void ParameterExchange::gather(const Layout& layout, HostOperations::Inputs inputs,
                               HostOperations::Outputs outputs, Group& group) {
  for (size_t i = 0; i < layout.values(); ++i)
    std::ranges::copy(inputs[i], layout.piece(i, layout.rank(), outputs[i]).begin());
  const bool packs = layout.values() > 1;
  size_t all = 0;
  for (size_t m = 0; packs && m < layout.members(); ++m) all += layout.bytes_of(m);
  std::span<std::byte> rest = memory(all);
  std::vector<std::span<std::byte>> incoming;
  for (size_t m = 0; m < layout.members(); ++m) {
    incoming.push_back(packs ? rest.first(layout.bytes_of(m)) : layout.piece(0, m, outputs[0]));
    if (packs) rest = rest.subspan(incoming[m].size());
  }
  std::span<const std::byte> own = inputs[0];
  if (packs) {
    auto to = incoming[layout.rank()].begin();
    for (const auto input : inputs) to = std::ranges::copy(input, to).out;
    own = incoming[layout.rank()];
  }
  const std::vector<std::span<const std::byte>> outgoing(layout.members(), own);
  group.exchange(outgoing, incoming);
  for (size_t m = 0; packs && m < layout.members(); ++m) {
    std::span<const std::byte> from = incoming[m];
    for (size_t i = 0; m != layout.rank() && i < layout.values(); ++i) {
      const std::span<std::byte> to = layout.piece(i, m, outputs[i]);
      std::ranges::copy(from.first(to.size()), to.begin());
      from = from.subspan(to.size());
    }
  }
}

void ParameterExchange::sum(const Layout& layout, HostOperations::Inputs inputs,
                            HostOperations::Outputs outputs, Group& group) {
  const bool packs = layout.values() > 1;
  const size_t own = layout.bytes_of(layout.rank());
  size_t sent = 0;
  for (size_t m = 0; packs && m < layout.members(); ++m) sent += layout.bytes_of(m);
  const std::span<std::byte> all = memory(own * layout.members() + sent);
  std::vector<std::span<std::byte>> incoming;
  for (size_t m = 0; m < layout.members(); ++m) incoming.push_back(all.subspan(m * own, own));
  std::vector<std::span<const std::byte>> outgoing;
  std::span<std::byte> rest = all.subspan(own * layout.members());
  for (size_t m = 0; m < layout.members(); ++m) {
    if (!packs) {
      outgoing.push_back(layout.piece(0, m, inputs[0]));
      continue;
    }
    const std::span<std::byte> packed = rest.first(layout.bytes_of(m));
    auto to = packed.begin();
    for (size_t i = 0; i < layout.values(); ++i)
      to = std::ranges::copy(layout.piece(i, m, inputs[i]), to).out;
    outgoing.emplace_back(packed);
    rest = rest.subspan(packed.size());
  }
  group.exchange(outgoing, incoming);
  for (size_t m = 0; m < layout.members(); ++m) {
    std::span<const std::byte> from = m == layout.rank() ? outgoing[m] : incoming[m];
    for (const std::span<std::byte> output : outputs) {
      add(from.first(output.size()), m == 0, output);
      from = from.subspan(output.size());
    }
  }
}

}  // namespace telar
