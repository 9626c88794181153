#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "telar/graph/program.h"
#include "telar/runtime/replica.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// The tensors of a session in canonical form, row-major f32, by the names that Session::state_names has.
class StateTensors {
 public:
  /// All must outlive it.
  StateTensors(const Program& program, const SharedState& state,
               const std::vector<std::unique_ptr<Replica>>& replicas)
      : program_(program), state_(state), replicas_(replicas) {}

  /// Throws Error (run) for an unknown name.
  Shape shape(const std::string& name) const { return state_shape(program_, name); }
  std::vector<float> read(const std::string& name) const;
  /// Into every memory. As many values as the tensor has elements.
  void write(const std::string& name, std::span<const float> values) const;
  /// The gradient sums of the last step.
  std::vector<float> read_gradient(const std::string& parameter) const;

 private:
  static std::byte* arena_of(const StateMemory& memory, const StatePlace& place);
  /// A tensor of which each replica has a part: what it updates alone, in an arena of its own.
  std::vector<float> together(const std::string& parameter,
                              const std::function<const std::byte*(const Replica&)>& arena) const;

  const Program& program_;
  const SharedState& state_;
  const std::vector<std::unique_ptr<Replica>>& replicas_;
};

}  // namespace telar
