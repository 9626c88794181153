#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "telar/comm/group.h"
#include "telar/graph/graph.h"

namespace telar {

/// Executes the operations with which members of a group exchange samples (telar/graph/ops/communication.h).
/// Its memory grows to what the largest exchange needs.
class SampleExchange {
 public:
  /// `from` and `to`: the node's input and output, row-major. Every member calls it for the same operation.
  /// Waits.
  void run(const Node& node, std::span<const std::byte> from, std::span<std::byte> to, Group& group);

 private:
  /// What the node's attributes say, in bytes.
  struct Layout;

  void gather(const Layout& layout, std::span<const std::byte> from, std::span<std::byte> to, Group& group);
  void sum(const Layout& layout, std::span<const std::byte> from, std::span<std::byte> to, Group& group);
  void to_features(const Layout& layout, std::span<const std::byte> from, std::span<std::byte> to,
                   Group& group);
  void to_samples(const Layout& layout, std::span<const std::byte> from, std::span<std::byte> to,
                  Group& group);
  /// Memory for what is sent or received in parts of these sizes.
  std::vector<std::span<std::byte>> parts(const std::vector<size_t>& bytes);

  std::vector<std::byte> memory_;
};

}  // namespace telar
