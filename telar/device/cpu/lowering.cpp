#include "telar/device/cpu/lowering.h"

#include <algorithm>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/weights_to_bf16.h"
#include "telar/graph/ops/stage.h"

namespace telar::cpu {

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

const Desc& native_desc(const TensorLayout& layout) { return *static_cast<const Desc*>(layout.native.get()); }

TensorLayout make_layout(const Desc& desc) {
  return {Shape(desc.dims()), desc.get_size(), format_name(desc), std::make_shared<const Desc>(desc)};
}

Lowering::Lowering(const Graph& graph, const CompileOptions& options)
    : graph_(graph), options_(options), uses_(graph.uses()) {
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
      if (options.parameters != nullptr) {
        fix_layout(id, native_desc(options.parameters->find(value.name).layout));
      }
    } else if (value.kind == ValueKind::input && is_delivered(value.name)) {
      if (options.delivered != nullptr && options.delivered->contains(value.name)) region(id);
    } else if (value.kind == ValueKind::input) {
      lies_[id] = add_region(plain(value.type.dtype, value.type.shape), Place::input, value.name);
    }
  }
  for (const Node& node : graph.nodes()) {
    if (node.op->effect() == Effect::delivers) deliveries_[node.inputs[0]] = node.attributes.text("name");
  }
  declare_unread_parameters();
}

void Lowering::declare_unread_parameters() {
  for (const Value& value : graph_.values()) {
    const std::string name = without_prefix(value.name, kGradientPrefix);
    if (value.kind != ValueKind::buffer || name.empty() || parameters_.contains(name)) continue;
    parameters_[name] = {false, add_region(plain(value.type.dtype, value.type.shape), Place::parameter, name),
                         -1};
    parameter_order_.push_back(name);
  }
}

void Lowering::run() {
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    node_ = static_cast<int>(n);
    const Node& node = graph_.nodes()[n];
    const Kernels::Kernel lower = kernels().find(node.op->name());
    if (lower == nullptr) throw run_error("the CPU device has no kernel for operation '{}'", node.op->name());
    try {
      lower(*this, node);
    } catch (const dnnl::error& error) {
      throw run_error("layer '{}': oneDNN does not support {}({}): {}", node.scope, node.op->name(),
                      node.attributes.str(), error.what());
    }
  }
  node_ = static_cast<int>(graph_.nodes().size());
  for (const Value& value : graph_.values()) {
    if (value.kind == ValueKind::parameter && parameters_.at(value.name).open) {
      fix_layout(graph_.find(ValueKind::parameter, value.name), plain(value.type.dtype, value.type.shape));
    }
  }
}

RegionId Lowering::add_region(const Desc& desc, Place place, const std::string& name) {
  regions_.push_back({desc, desc.get_size(), place, name, 0, -1});
  return static_cast<RegionId>(regions_.size() - 1);
}

void Lowering::fix_layout(ValueId parameter, const Desc& layout) {
  Parameter& state = parameters_.at(graph_.value(parameter).name);
  state.open = false;
  state.region = add_region(layout, Place::parameter, graph_.value(parameter).name);
  lies_[parameter] = state.region;
}

void Lowering::propose_layout(ValueId parameter, const Desc& layout) {
  if (is_parameter(parameter) && parameters_.at(graph_.value(parameter).name).open)
    fix_layout(parameter, layout);
}

void Lowering::define_converted_parameter(ValueId value, ValueId source) { converted_[value] = source; }

std::optional<ValueId> Lowering::converted_parameter(ValueId value) const {
  const auto found = converted_.find(value);
  if (found == converted_.end()) return std::nullopt;
  return found->second;
}

Desc Lowering::desc(ValueId value) const {
  const auto found = lies_.find(value);
  if (found != lies_.end()) return desc_of(found->second);
  if (const auto source = converted_parameter(value)) return with_type(desc(*source), type(value).dtype);
  return plain(type(value).dtype, shape(value));
}

RegionId Lowering::region(ValueId value) { return region(value, desc(value)); }

RegionId Lowering::region(ValueId value, const Desc& wanted) {
  if (is_parameter(value) && parameters_.at(graph_.value(value).name).open) fix_layout(value, wanted);
  const Value& asked = graph_.value(value);
  if (asked.kind == ValueKind::input &&
      !lies_.contains(value)) {  // from another graph: in the first reader's layout
    lies_[value] = add_region(delivery_desc(value, asked.name, wanted), Place::delivered, asked.name);
  }
  const auto found = lies_.find(value);
  if (found != lies_.end() && desc_of(found->second) == wanted) return found->second;
  for (const RegionId copy : copies_[value]) {
    if (desc_of(copy) == wanted) return copy;
  }
  RegionId from = -1;
  if (found != lies_.end()) {
    from = found->second;
  } else if (const auto source = converted_parameter(value)) {
    from = region(*source);
  } else {
    throw run_error("operation '{}' reads a value that no operation has computed",
                    graph_.nodes()[static_cast<size_t>(node_)].op->name());
  }
  const bool prepares =
      options_.prepare_parameters && regions_[static_cast<size_t>(from)].place == Place::parameter;
  const RegionId copy = add_region(wanted, Place::activation);
  copies_[value].push_back(copy);
  holds_[copy].push_back(value);
  reorder(from, copy);
  if (prepares) prepare_with_last_step();
  return copy;
}

void Lowering::prepare_with_last_step() {
  Step& step = steps_.back();
  step.prepares = true;
  std::vector<RegionId> written(step.regions.begin() + static_cast<ptrdiff_t>(step.reads),
                                step.regions.end());
  for (const auto& [argument, id] : step.arguments) {
    if (argument != DNNL_ARG_FROM) written.push_back(id);
  }
  for (const RegionId id : written) {
    Region& region = regions_[static_cast<size_t>(id)];
    // A scratchpad, too, because this step runs at a different time than its neighbours.
    region.place = Place::prepared;
    region.offset = prepared_bytes_;
    prepared_bytes_ += align_up(region.bytes);
  }
}

Desc Lowering::delivery_desc(ValueId value, const std::string& name, const Desc& natural) {
  const TensorType& tensor = type(value);
  if (options_.delivered != nullptr) {
    const auto agreed = options_.delivered->find(name);
    if (agreed != options_.delivered->end()) return for_batch(native_desc(agreed->second), tensor.shape[0]);
  }
  const Desc chosen = batch_is_outermost(natural) ? natural : plain(tensor.dtype, tensor.shape);
  delivered_layouts_[name] = make_layout(chosen);
  return chosen;
}

void Lowering::deliver(ValueId value, const std::string& name) {
  const RegionId from = region(value);
  if (regions_[static_cast<size_t>(from)].place == Place::delivered &&
      regions_[static_cast<size_t>(from)].name == name)
    return;
  reorder(from, add_region(delivery_desc(value, name, Desc(desc_of(from))), Place::delivered, name));
}

std::optional<ValueId> Lowering::direct_target(ValueId result) const {
  const auto& readers = uses_[static_cast<size_t>(result)];
  if (options_.accumulation != Accumulation::overwrite || readers.size() != 1) return std::nullopt;
  if (readers[0] >= static_cast<int>(graph_.nodes().size())) return std::nullopt;
  const Node& reader = graph_.nodes()[static_cast<size_t>(readers[0])];
  if (reader.op->effect() != Effect::accumulates || reader.inputs.size() != 2 || reader.inputs[1] != result) {
    return std::nullopt;
  }
  const Value& buffer = graph_.value(reader.inputs[0]);
  if (!buffer.name.starts_with(kGradientPrefix)) return std::nullopt;
  return reader.inputs[0];
}

RegionId Lowering::define(ValueId result, const Desc& layout) {
  if (const auto target = direct_target(result)) {
    const std::string name = without_prefix(graph_.value(*target).name, kGradientPrefix);
    propose_layout(graph_.find(ValueKind::parameter, name), layout);
    const RegionId gradient = gradient_region(*target);
    if (desc_of(gradient) == layout) {
      direct_[result] = true;
      lies_[result] = gradient;
      return gradient;
    }
  }
  const auto delivery = deliveries_.find(result);
  if (delivery != deliveries_.end() && delivery_desc(result, delivery->second, layout) == layout) {
    return lies_[result] = add_region(layout, Place::delivered, delivery->second);
  }
  const RegionId made = add_region(layout, Place::activation);
  lies_[result] = made;
  holds_[made].push_back(result);
  return made;
}

RegionId Lowering::view(RegionId region, const Desc& desc, size_t shift) {
  if (desc_of(region) == desc) return region;
  const Region origin = regions_[static_cast<size_t>(region)];
  regions_.push_back({desc, desc.get_size(), origin.place, origin.name, 0, region, origin.shift + shift});
  return static_cast<RegionId>(regions_.size() - 1);
}

void Lowering::define_alias(ValueId result, RegionId source, const Desc& layout) {
  lies_[result] = view(source, layout);
  holds_[root_of(source)].push_back(result);
}

void Lowering::define_in_place(ValueId result, ValueId source, const Desc& layout) {
  if (!direct_target(result) && !deliveries_.contains(result) && dies_here(source) &&
      desc(source) == layout) {
    define_alias(result, lies_.at(source), layout);
  } else {
    define(result, layout);
  }
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
  const auto sharing = holds_.find(root);
  if (sharing == holds_.end()) return false;
  return std::all_of(sharing->second.begin(), sharing->second.end(), [&](ValueId other) {
    const auto& readers = uses_[static_cast<size_t>(other)];
    return readers.empty() || readers.back() <= node_;
  });
}

RegionId Lowering::temporary(const Desc& desc) { return add_region(desc, Place::activation); }

RegionId Lowering::gradient_region(ValueId buffer) {
  const std::string name = without_prefix(graph_.value(buffer).name, kGradientPrefix);
  Parameter& parameter = parameters_.at(name);
  if (parameter.gradient < 0) {
    if (parameter.open) region(graph_.find(ValueKind::parameter, name));
    parameter.gradient = add_region(Desc(desc_of(parameter.region)), Place::gradient, name);
  }
  return parameter.gradient;
}

RegionId Lowering::metric_region(ValueId buffer) {
  const auto found = lies_.find(buffer);
  if (found != lies_.end()) return found->second;
  const std::string name = without_prefix(graph_.value(buffer).name, kMetricPrefix);
  return lies_[buffer] = add_region(plain(DType::f32, {1}), Place::metric, name);
}

void Lowering::add_primitive(const dnnl::primitive& primitive, Arguments arguments, const Desc& scratchpad) {
  Step step;
  step.node = node_;
  step.after_pause = paused_;
  step.primitive = primitive;
  if (scratchpad.get_size() > 0) arguments.emplace_back(DNNL_ARG_SCRATCHPAD, temporary(scratchpad));
  std::erase_if(arguments, [](const auto& argument) { return argument.second < 0; });
  step.arguments = std::move(arguments);
  steps_.push_back(std::move(step));
}

void Lowering::function(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes,
                        Function function) {
  Step step;
  step.node = node_;
  step.after_pause = paused_;
  step.function = std::move(function);
  step.regions = reads;
  step.reads = reads.size();
  step.regions.insert(step.regions.end(), writes.begin(), writes.end());
  steps_.push_back(std::move(step));
}

void Lowering::host(RegionId region) {
  Step step;
  step.node = node_;
  step.after_pause = paused_;
  step.host = true;
  if (region >= 0) step.regions.push_back(region);
  steps_.push_back(std::move(step));
}

void Lowering::reorder(RegionId from, RegionId to) {
  if (const WeightsToBf16 convert = weights_to_bf16(desc_of(from), desc_of(to))) {
    function({from}, {to}, [=](const Pointers& p) { convert(p.get<const float>(0), p.get<uint16_t>(1)); });
  } else {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc pd(engine(), desc_of(from), engine(), desc_of(to), attributes);
    primitive(pd, dnnl::reorder(pd), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  steps_.back().reorders = true;
}

std::vector<std::pair<std::string, TensorLayout>> Lowering::parameter_layouts() const {
  std::vector<std::pair<std::string, TensorLayout>> layouts;
  for (const auto& name : parameter_order_) {
    layouts.emplace_back(name, make_layout(desc_of(parameters_.at(name).region)));
  }
  return layouts;
}

}  // namespace telar::cpu
