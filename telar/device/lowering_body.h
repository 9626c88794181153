#pragma once

// The definitions of GraphLowering. A device includes them in one source, where it instantiates the template
// for its Target.

#include <algorithm>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/device/lowering.h"
#include "telar/graph/ops/stage.h"

namespace telar {

template <typename Target>
GraphLowering<Target>::GraphLowering(const Graph& graph, const CompileOptions& options)
    : graph_(graph), options_(options), uses_(graph.uses()) {
  for (const auto& output : graph.outputs()) {
    // Read after the last operation.
    uses_[static_cast<size_t>(output.second)].push_back(static_cast<int>(graph.nodes().size()));
  }
}

template <typename Target>
void GraphLowering<Target>::run() {
  declare_values();
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    node_ = static_cast<int>(n);
    lower(graph_.nodes()[n]);
  }
  // An output that is a converted parameter is computed here, after the last operation.
  for (const auto& output : graph_.outputs()) region(output.second);
  node_ = static_cast<int>(graph_.nodes().size());
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    if (is_open(id)) fix_layout(id, Target::plain(type(id)));
  }
}

template <typename Target>
void GraphLowering<Target>::declare_values() {
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    const auto id = static_cast<ValueId>(i);
    if (value.kind == ValueKind::parameter) {
      parameters_[value.name] = {};
      parameter_order_.push_back(value.name);
      if (options_.parameters != nullptr)
        fix_layout(id, Target::imported(options_.parameters->find(value.name).layout, value.type));
    } else if (value.kind == ValueKind::input && is_delivered(value.name)) {
      if (options_.delivered != nullptr && options_.delivered->contains(value.name)) region(id);
    } else if (value.kind == ValueKind::input) {
      lies_[id] = add_region(Target::plain(value.type), Place::input, value.name);
    }
  }
  for (const Node& node : graph_.nodes()) {
    if (node.op->effect() == Effect::delivers) deliveries_[node.inputs[0]] = node.attributes.text("name");
  }
  declare_unread_parameters();
}

template <typename Target>
void GraphLowering<Target>::declare_unread_parameters() {
  for (const Value& value : graph_.values()) {
    if (value.kind != ValueKind::gradient || parameters_.contains(value.name)) continue;
    const RegionId made = add_region(Target::plain(value.type), Place::parameter, value.name);
    parameters_[value.name] = {false, made, -1};
    parameter_order_.push_back(value.name);
  }
}

// Parameters and values.

template <typename Target>
bool GraphLowering<Target>::is_open(ValueId value) const {
  const Value& asked = graph_.value(value);
  return asked.kind == ValueKind::parameter && parameters_.at(asked.name).open;
}

template <typename Target>
void GraphLowering<Target>::fix_layout(ValueId parameter, const Layout& layout) {
  const std::string& name = graph_.value(parameter).name;
  Parameter& state = parameters_.at(name);
  state.open = false;
  state.region = add_region(layout, Place::parameter, name);
  lies_[parameter] = state.region;
}

template <typename Target>
std::optional<ValueId> GraphLowering<Target>::converted_parameter(ValueId value) const {
  const auto found = converted_.find(value);
  return found == converted_.end() ? std::nullopt : std::optional(found->second);
}

template <typename Target>
typename GraphLowering<Target>::Layout GraphLowering<Target>::layout(ValueId value) const {
  const auto found = lies_.find(value);
  if (found != lies_.end()) return layout_of(found->second);
  if (const auto source = converted_parameter(value)) return Target::with_type(layout(*source), dtype(value));
  return Target::plain(type(value));
}

template <typename Target>
RegionId GraphLowering<Target>::region(ValueId value, const Layout& wanted) {
  propose_layout(value, wanted);
  const Value& asked = graph_.value(value);
  if (asked.kind == ValueKind::input && !lies_.contains(value)) {
    // From another graph: in the first reader's layout.
    lies_[value] = add_region(delivery_layout(value, asked.name, wanted), Place::delivered, asked.name);
  }
  if (!lies_.contains(value)) compute_late(value, wanted);
  const auto found = lies_.find(value);
  if (found != lies_.end() && layout_of(found->second) == wanted) return found->second;
  for (const RegionId copy : copies_[value]) {
    if (layout_of(copy) == wanted) return copy;
  }
  if (found != lies_.end()) return copied(value, found->second, wanted);
  if (const auto source = converted_parameter(value)) return copied(value, region(*source), wanted);
  throw run_error("operation '{}' reads a value that no operation has computed",
                  graph_.nodes()[static_cast<size_t>(node_)].op->name());
}

template <typename Target>
RegionId GraphLowering<Target>::copied(ValueId value, RegionId from, const Layout& wanted) {
  const bool prepares =
      options_.prepare_parameters && regions_[static_cast<size_t>(from)].place == Place::parameter;
  const RegionId copy = add_region(wanted, Place::activation);
  copies_[value].push_back(copy);
  holds_[copy].push_back(value);
  reorder(from, copy);
  if (prepares) prepare_with_last_step();
  return copy;
}

template <typename Target>
void GraphLowering<Target>::prepare_with_last_step() {
  Step<Work>& step = steps_.back();
  step.prepares = true;
  for (size_t i = step.reads; i < step.regions.size(); ++i) {
    Region<Layout>& region = regions_[static_cast<size_t>(step.regions[i])];
    // A scratchpad, too, because this step runs at a different time than its neighbours.
    region.place = Place::prepared;
    region.offset = prepared_bytes_;
    prepared_bytes_ += align_up(region.bytes);
  }
}

// Results.

template <typename Target>
std::optional<ValueId> GraphLowering<Target>::accumulated_into(ValueId result, ValueKind kind) const {
  const auto& readers = uses_[static_cast<size_t>(result)];
  if (readers.size() != 1 || readers[0] >= static_cast<int>(graph_.nodes().size())) return std::nullopt;
  const Node& reader = graph_.nodes()[static_cast<size_t>(readers[0])];
  if (reader.op->effect() != Effect::accumulates || reader.inputs.size() != 2 || reader.inputs[1] != result)
    return std::nullopt;
  return graph_.value(reader.inputs[0]).kind == kind ? std::optional(reader.inputs[0]) : std::nullopt;
}

template <typename Target>
std::optional<ValueId> GraphLowering<Target>::direct_target(ValueId result) const {
  if (options_.accumulation != Accumulation::overwrite) return std::nullopt;
  return accumulated_into(result, ValueKind::gradient);
}

template <typename Target>
RegionId GraphLowering<Target>::define(ValueId result, const Layout& layout) {
  if (const auto target = direct_target(result)) {
    const std::string& name = graph_.value(*target).name;
    if (parameters_.at(name).open) fix_layout(graph_.find(ValueKind::parameter, name), layout);
    const RegionId gradient = gradient_region(*target);
    if (layout_of(gradient) == layout) {
      direct_[result] = true;
      return lies_[result] = gradient;
    }
  }
  const auto delivery = deliveries_.find(result);
  if (delivery != deliveries_.end() && delivery_layout(result, delivery->second, layout) == layout)
    return lies_[result] = add_region(layout, Place::delivered, delivery->second);
  const RegionId made = lies_[result] = add_region(layout, Place::activation);
  holds_[made].push_back(result);
  return made;
}

template <typename Target>
RegionId GraphLowering<Target>::view(RegionId region, const Layout& layout, size_t shift) {
  if (layout_of(region) == layout) return region;
  const Region<Layout> origin = regions_[static_cast<size_t>(region)];
  regions_.push_back(
      {layout, Target::bytes_of(layout), origin.place, origin.name, 0, region, origin.shift + shift});
  return static_cast<RegionId>(regions_.size() - 1);
}

template <typename Target>
RegionId GraphLowering<Target>::define_alias(ValueId result, RegionId source, const Layout& layout) {
  holds_[root_of(source)].push_back(result);
  return lies_[result] = view(source, layout);
}

template <typename Target>
RegionId GraphLowering<Target>::define_in_place(ValueId result, ValueId source, const Layout& layout) {
  if (!direct_target(result) && !deliveries_.contains(result) && dies_here(source) &&
      Target::may_replace(this->layout(source), layout)) {
    return define_alias(result, lies_.at(source), layout);
  }
  return define(result, layout);
}

template <typename Target>
RegionId GraphLowering<Target>::root_of(RegionId region) const {
  while (regions_[static_cast<size_t>(region)].alias_of >= 0)
    region = regions_[static_cast<size_t>(region)].alias_of;
  return region;
}

template <typename Target>
bool GraphLowering<Target>::dies_here(ValueId value) const {
  const auto found = lies_.find(value);
  if (found == lies_.end()) return false;
  const RegionId root = root_of(found->second);
  if (regions_[static_cast<size_t>(root)].place != Place::activation) return false;
  const auto sharing = holds_.find(root);
  if (sharing == holds_.end()) return false;
  return std::all_of(sharing->second.begin(), sharing->second.end(), [&](ValueId other) {
    const auto& readers = uses_[static_cast<size_t>(other)];
    return readers.empty() || readers.back() <= node_;
  });
}

// Long-lived memory, and memory of other graphs.

template <typename Target>
RegionId GraphLowering<Target>::gradient_region(ValueId buffer) {
  const std::string& name = graph_.value(buffer).name;
  Parameter& parameter = parameters_.at(name);
  if (parameter.gradient < 0) {
    if (parameter.open) region(graph_.find(ValueKind::parameter, name));
    parameter.gradient = add_region(Layout(layout_of(parameter.region)), Place::gradient, name);
  }
  return parameter.gradient;
}

template <typename Target>
bool GraphLowering<Target>::is_metric(ValueId buffer) const {
  return graph_.value(buffer).kind == ValueKind::metric;
}

template <typename Target>
RegionId GraphLowering<Target>::metric_region(ValueId buffer) {
  const auto found = lies_.find(buffer);
  if (found != lies_.end()) return found->second;
  return lies_[buffer] = add_region(Target::plain(type(buffer)), Place::metric, graph_.value(buffer).name);
}

template <typename Target>
typename GraphLowering<Target>::Layout GraphLowering<Target>::delivery_layout(ValueId value,
                                                                              const std::string& name,
                                                                              const Layout& natural) {
  const TensorType& tensor = type(value);
  if (options_.delivered != nullptr) {
    const auto agreed = options_.delivered->find(name);
    if (agreed != options_.delivered->end())
      return Target::for_batch(Target::imported(agreed->second, tensor), tensor.shape[0]);
  }
  Layout chosen = Target::batch_is_outermost(natural) ? natural : Target::plain(tensor);
  delivered_layouts_[name] = Target::exported(chosen);
  return chosen;
}

template <typename Target>
void GraphLowering<Target>::deliver(ValueId value, const std::string& name) {
  const RegionId from = region(value);
  const Region<Layout>& known = regions_[static_cast<size_t>(from)];
  if (known.place == Place::delivered && known.name == name) return;
  reorder(from, add_region(delivery_layout(value, name, Layout(layout_of(from))), Place::delivered, name));
}

template <typename Target>
std::vector<std::pair<std::string, TensorLayout>> GraphLowering<Target>::parameter_layouts() const {
  std::vector<std::pair<std::string, TensorLayout>> layouts;
  for (const auto& name : parameter_order_)
    layouts.emplace_back(name, Target::exported(layout_of(parameters_.at(name).region)));
  return layouts;
}

// Regions and steps.

template <typename Target>
RegionId GraphLowering<Target>::add_region(const Layout& layout, size_t bytes, Place place,
                                           const std::string& name) {
  regions_.push_back({layout, bytes, place, name, 0, -1});
  return static_cast<RegionId>(regions_.size() - 1);
}

template <typename Target>
Step<typename GraphLowering<Target>::Work>& GraphLowering<Target>::add_step(
    const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Work work) {
  Step<Work>& step = steps_.emplace_back();
  step.node = node_;
  step.work = std::move(work);
  step.regions = reads;
  step.regions.insert(step.regions.end(), writes.begin(), writes.end());
  step.reads = reads.size();
  step.after_pause = paused_;
  return step;
}

template <typename Target>
void GraphLowering<Target>::host(RegionId region) {
  const std::vector<RegionId> memory = region < 0 ? std::vector<RegionId>{} : std::vector{region};
  add_step({}, memory, {}).host = true;
}

template <typename Target>
void GraphLowering<Target>::host(const std::vector<RegionId>& from, const std::vector<RegionId>& to) {
  add_step(from, to, {}).host = true;
}

}  // namespace telar
