#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "telar/comm/group.h"
#include "telar/device/device.h"
#include "telar/graph/graph.h"

namespace telar {

/// Executes the operations with which members of a group exchange pieces of parameters and of their gradients
/// (telar/graph/ops/communication.h): in memory that all can read, if the group has such, or by messages. Its
/// own memory grows to what the largest exchange needs: about one bucket.
class ParameterExchange {
 public:
  /// Every member calls it for the same operation. Waits. Throws Error (run) if the node was made for another
  /// number of members.
  void run(const Node& node, HostOperations::Inputs inputs, HostOperations::Outputs outputs, Group& group);

 private:
  /// The bytes of each member's piece of each value.
  class Layout;

  /// Fills the whole values, `outputs`, with the pieces of all members.
  void gather(const Layout& layout, HostOperations::Inputs inputs, HostOperations::Outputs outputs,
              Group& group);
  /// Fills `outputs` with this member's pieces of the sums of the whole values, added in rank order.
  void sum(const Layout& layout, HostOperations::Inputs inputs, HostOperations::Outputs outputs,
           Group& group);
  /// The same, through the memory of the group.
  static void gather_in(Windows& windows, const Layout& layout, HostOperations::Inputs inputs,
                        HostOperations::Outputs outputs);
  static void sum_in(Windows& windows, const Layout& layout, HostOperations::Inputs inputs,
                     HostOperations::Outputs outputs);
  std::span<std::byte> memory(size_t bytes);

  std::vector<std::byte> memory_;
};

}  // namespace telar
