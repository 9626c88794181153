#include "telar/device/cuda/lowering.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/reorder.h"
#include "telar/device/memory_plan.h"

namespace telar::cuda {

namespace {

const std::string kGradientPrefix = "gradient/";
const std::string kMetricPrefix = "metric/";

std::string without_prefix(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string();
}

const Kernels& kernels() {
  static const Kernels all = [] {
    Kernels registered;
    register_all(registered);
    return registered;
  }();
  return all;
}

}  // namespace

Lowering::Lowering(const Graph& graph, Gpu& gpu, const CompileOptions& options)
    : graph_(graph), gpu_(gpu), options_(options), uses_(graph.uses()) {
  for (const auto& output : graph.outputs()) {
    // Read after the last operation.
    uses_[static_cast<size_t>(output.second)].push_back(static_cast<int>(graph.nodes().size()));
  }
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    const auto id = static_cast<ValueId>(i);
    if (value.kind == ValueKind::parameter) {
      parameters_[value.name] = {};
      parameter_order_.push_back(value.name);
      if (options.parameters != nullptr)
        fix_layout(id, layout_named(options.parameters->find(value.name).layout.format));
    } else if (value.kind == ValueKind::input) {
      lies_[id] = add_value(id, Layout::plain, Place::input, value.name);
    }
  }
  declare_unread_parameters();
}

void Lowering::declare_unread_parameters() {
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    const std::string name = without_prefix(value.name, kGradientPrefix);
    if (value.kind != ValueKind::buffer || name.empty() || parameters_.contains(name)) continue;
    parameters_[name] = {false, add_value(static_cast<ValueId>(i), Layout::plain, Place::parameter, name),
                         -1};
    parameter_order_.push_back(name);
  }
}

void Lowering::run() {
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    node_ = static_cast<int>(n);
    const Node& node = graph_.nodes()[n];
    const Kernels::Kernel lower = kernels().find(node.op->name());
    if (lower == nullptr) throw run_error("a GPU cannot compute {} yet", node.op->name());
    lower(*this, node);
  }
  // An output that is a converted parameter is computed here, after the last operation.
  for (const auto& output : graph_.outputs()) region(output.second);
  node_ = static_cast<int>(graph_.nodes().size());
  for (size_t i = 0; i < graph_.values().size(); ++i)
    if (is_open(static_cast<ValueId>(i))) fix_layout(static_cast<ValueId>(i), Layout::plain);
}

RegionId Lowering::add_region(Region region) {
  regions_.push_back(std::move(region));
  return static_cast<RegionId>(regions_.size() - 1);
}

RegionId Lowering::add_value(ValueId value, Layout layout, Place place, std::string name) {
  return add_region({type(value), layout, bytes_of(type(value)), place, std::move(name)});
}

bool Lowering::is_open(ValueId value) const {
  const Value& asked = graph_.value(value);
  return asked.kind == ValueKind::parameter && parameters_.at(asked.name).open;
}

void Lowering::fix_layout(ValueId parameter, Layout layout) {
  const std::string& name = graph_.value(parameter).name;
  Parameter& state = parameters_.at(name);
  state.open = false;
  state.region = add_value(parameter, layout, Place::parameter, name);
  lies_[parameter] = state.region;
}

Layout Lowering::layout(ValueId value) const {
  const auto found = lies_.find(value);
  if (found != lies_.end()) return layout_of(found->second);
  const auto source = converted_.find(value);
  return source == converted_.end() ? Layout::plain : layout(source->second);
}

RegionId Lowering::region(ValueId value, Layout wanted) {
  if (is_open(value)) fix_layout(value, wanted);
  if (const auto number = constant(value); number && !lies_.contains(value)) {
    const RegionId made = lies_[value] = add_value(value, wanted);
    add({}, {made}, filling(gpu_, type(value), *number));
  }
  if (!lies_.contains(value)) {
    const auto source = converted_.find(value);
    if (source == converted_.end()) {
      throw run_error("operation '{}' reads a value that no operation has computed",
                      graph_.nodes()[static_cast<size_t>(node_)].op->name());
    }
    const RegionId from = region(source->second, wanted);
    const RegionId made = lies_[value] = add_value(value, wanted);
    add({from}, {made}, conversion(gpu_, type(source->second), dtype(value)));
    steps_.back().reorders = true;
  }
  if (layout(value) == wanted) return lies_.at(value);
  const auto known = copies_.find(value);
  if (known != copies_.end()) return known->second;
  const RegionId copy = add_value(value, wanted);
  add({lies_.at(value)}, {copy}, reorder(gpu_, type(value), wanted));
  steps_.back().reorders = true;
  return copies_[value] = copy;
}

std::optional<ValueId> Lowering::accumulated_into(ValueId result, const std::string& prefix) const {
  const auto& readers = uses_[static_cast<size_t>(result)];
  if (readers.size() != 1 || readers[0] >= static_cast<int>(graph_.nodes().size())) return std::nullopt;
  const Node& reader = graph_.nodes()[static_cast<size_t>(readers[0])];
  if (reader.op->effect() != Effect::accumulates || reader.inputs.size() != 2 || reader.inputs[1] != result)
    return std::nullopt;
  return graph_.value(reader.inputs[0]).name.starts_with(prefix) ? std::optional(reader.inputs[0])
                                                                 : std::nullopt;
}

std::optional<ValueId> Lowering::direct_target(ValueId result) const {
  if (options_.accumulation != Accumulation::overwrite) return std::nullopt;
  return accumulated_into(result, kGradientPrefix);
}

std::optional<RegionId> Lowering::metric_of(ValueId result) {
  const auto metric = accumulated_into(result, kMetricPrefix);
  if (!metric) return std::nullopt;
  direct_[result] = true;
  return metric_region(*metric);
}

RegionId Lowering::define(ValueId result, Layout layout) {
  if (const auto target = direct_target(result)) {
    const std::string name = without_prefix(graph_.value(*target).name, kGradientPrefix);
    if (parameters_.at(name).open) fix_layout(graph_.find(ValueKind::parameter, name), layout);
    const RegionId gradient = gradient_region(*target);
    if (layout_of(gradient) == layout) {
      direct_[result] = true;
      return lies_[result] = gradient;
    }
  }
  const RegionId made = lies_[result] = add_value(result, layout);
  shared_[made].push_back(result);
  return made;
}

RegionId Lowering::define_alias(ValueId result, RegionId source, Layout layout) {
  const Region origin = regions_[static_cast<size_t>(source)];
  const RegionId seen =
      add_region({type(result), layout, bytes_of(type(result)), origin.place, origin.name, 0, source});
  shared_[root_of(source)].push_back(result);
  return lies_[result] = seen;
}

RegionId Lowering::define_in_place(ValueId result, ValueId source) {
  const Layout lying = layout(source);
  if (!direct_target(result) && dies_here(source) && bytes_of(type(result)) == bytes_of(type(source)))
    return define_alias(result, lies_.at(source), lying);
  return define(result, lying);
}

RegionId Lowering::root_of(RegionId region) const {
  while (regions_[static_cast<size_t>(region)].alias_of >= 0)
    region = regions_[static_cast<size_t>(region)].alias_of;
  return region;
}

bool Lowering::dies_here(ValueId value) const {
  const auto found = lies_.find(value);
  if (found == lies_.end()) return false;
  const RegionId root = root_of(found->second);
  if (regions_[static_cast<size_t>(root)].place != Place::activation) return false;
  const auto sharing = shared_.find(root);
  if (sharing == shared_.end()) return false;
  return std::all_of(sharing->second.begin(), sharing->second.end(), [&](ValueId other) {
    const auto& readers = uses_[static_cast<size_t>(other)];
    return readers.empty() || readers.back() <= node_;
  });
}

RegionId Lowering::temporary(size_t bytes) {
  return add_region({{DType::opaque, {}}, Layout::plain, bytes, Place::activation, {}});
}

RegionId Lowering::gradient_region(ValueId buffer) {
  const std::string name = without_prefix(graph_.value(buffer).name, kGradientPrefix);
  Parameter& parameter = parameters_.at(name);
  if (parameter.gradient < 0) {
    if (parameter.open) fix_layout(graph_.find(ValueKind::parameter, name), Layout::plain);
    parameter.gradient = add_value(buffer, layout_of(parameter.region), Place::gradient, name);
  }
  return parameter.gradient;
}

RegionId Lowering::metric_region(ValueId buffer) {
  const auto found = lies_.find(buffer);
  if (found != lies_.end()) return found->second;
  return lies_[buffer] = add_value(buffer, Layout::plain, Place::metric,
                                   without_prefix(graph_.value(buffer).name, kMetricPrefix));
}

void Lowering::add(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes, Enqueue enqueue,
                   Enqueue choose) {
  Step step{node_, std::move(enqueue), std::move(choose), reads, reads.size(), false, false};
  step.regions.insert(step.regions.end(), writes.begin(), writes.end());
  steps_.push_back(std::move(step));
}

void Lowering::host(RegionId region) {
  Step step{node_, {}, {}, {}, 0, true, false};
  if (region >= 0) step.regions.push_back(region);
  steps_.push_back(std::move(step));
}

std::vector<std::pair<std::string, TensorLayout>> Lowering::parameter_layouts() const {
  std::vector<std::pair<std::string, TensorLayout>> layouts;
  for (const auto& name : parameter_order_) {
    const Region& region = regions_[static_cast<size_t>(parameters_.at(name).region)];
    layouts.emplace_back(name,
                         TensorLayout{region.type.shape, region.bytes, name_of(region.layout), nullptr});
  }
  return layouts;
}

size_t plan_memory(std::vector<Region>& regions, const std::vector<Step>& steps,
                   const std::vector<RegionId>& kept) {
  const auto root_of = [&](RegionId region) {
    while (regions[static_cast<size_t>(region)].alias_of >= 0)
      region = regions[static_cast<size_t>(region)].alias_of;
    return static_cast<size_t>(region);
  };
  std::vector<Life> lives(regions.size());
  const auto touch = [&](RegionId region, int step) {
    Life& life = lives[root_of(region)];
    if (life.first < 0) life.first = step;
    life.last = std::max(life.last, step);
  };
  for (size_t s = 0; s < steps.size(); ++s)
    for (const RegionId region : steps[s].regions) touch(region, static_cast<int>(s));
  for (const RegionId region : kept) touch(region, static_cast<int>(steps.size()));
  // Regions in other memory and regions that no step uses keep 0 bytes.
  for (size_t i = 0; i < regions.size(); ++i)
    if (regions[i].place == Place::activation && regions[i].alias_of < 0 && lives[i].first >= 0)
      lives[i].bytes = align_up_memory(regions[i].bytes);
  const size_t total = place_lives(lives);
  for (size_t i = 0; i < regions.size(); ++i)
    regions[i].offset = lives[root_of(static_cast<RegionId>(i))].offset;
  return total;
}

}  // namespace telar::cuda
