#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "telar/weave/torch/program.h"

namespace telar::weave {

/// A model of a PyTorch program that DistributedDataParallel wraps.
struct Wrapped {
  const TorchModel* model = nullptr;
  const Node* before = nullptr;  ///< the statement that follows the wrapping
  int place = -1;
  std::string text;
  bool was_data_parallel = false;  ///< the script already used a wrapper
};

/// Follows wrapped models through variables, parameters, attributes, displays and loops.
class WrappedModels {
 public:
  explicit WrappedModels(const Names& names) : names_(names) {}

  /// Follows these models, which must not move.
  void follow(const std::vector<Wrapped>& models);
  /// The wrapped models, by the place where they are wrapped.
  const std::unordered_map<int, const Wrapped*>& roots() const { return roots_; }

  /// The wrapped model that an expression holds; null if none. `part`: index in a returned tuple.
  const Wrapped* wrapped(const Node* expression, int part = -1, int depth = 8) const;
  /// Whether an expression is the bare model, wrapped or not: `model.module if hasattr(model, "module")
  /// else model`.
  bool takes_wrapper_away(const Node* expression) const;
  /// Whether a variable always holds the wrapped model. Otherwise it is another model at times, or the same
  /// one before it is wrapped.
  bool is_always_wrapped(const Node* node) const;

 private:
  const Wrapped* element(const Node* display, int index, int depth) const;
  const Wrapped* iterated(const Value& value) const;
  const Wrapped* entry(const Node* subscript, int depth) const;
  bool is_loaded(int place) const;

  const Names& names_;
  std::unordered_map<int, const Wrapped*> roots_;
  std::unordered_map<int, const Wrapped*> spread_;  ///< places that receive one of them
};

}  // namespace telar::weave
