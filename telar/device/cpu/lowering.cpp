#include "telar/device/cpu/lowering.h"

#include <algorithm>
#include <array>

#include "telar/core/memory_limit.h"
#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/weights_to_bf16.h"
#include "telar/device/lowering_body.h"

namespace telar {
template class GraphLowering<cpu::Target>;
}

namespace telar::cpu {

namespace {

const Kernels& kernels() {
  static const Kernels all = [] {
    Kernels registered;
    register_all(registered);
    return registered;
  }();
  return all;
}

}  // namespace

bool is_written(int argument) {
  static constexpr std::array kWritten = {DNNL_ARG_DST,        DNNL_ARG_DST_1,        DNNL_ARG_DST_2,
                                          DNNL_ARG_DIFF_SRC,   DNNL_ARG_DIFF_BIAS,    DNNL_ARG_DIFF_SCALE,
                                          DNNL_ARG_DIFF_SHIFT, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_MEAN,
                                          DNNL_ARG_SCRATCHPAD, DNNL_ARG_DIFF_SRC_ITER};
  return std::find(kWritten.begin(), kWritten.end(), argument) != kWritten.end();
}

const Desc& native_desc(const TensorLayout& layout) { return *static_cast<const Desc*>(layout.native.get()); }

TensorLayout make_layout(const Desc& desc) {
  return {Shape(desc.dims()), desc.get_size(), format_name(desc), std::make_shared<const Desc>(desc)};
}

void Lowering::lower(const Node& node) {
  const Kernels::Kernel* kernel = kernels().find(node.op->name());
  if (kernel == nullptr) throw run_error("the CPU device has no kernel for operation '{}'", node.op->name());
  // oneDNN generates code for a primitive, and crashes if there is no memory for it.
  constexpr size_t kCode = size_t{32} << 20;
  require_free_memory(kCode);
  try {
    (*kernel)(*this, node);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory)
      throw out_of_memory(fmt::format("layer '{}', {}", node.scope, node.op->name()));
    throw run_error("layer '{}': oneDNN does not support {}({}): {}", node.scope, node.op->name(),
                    node.attributes.str(), error.what());
  }
}

void Lowering::add_primitive(const dnnl::primitive& primitive, Arguments arguments, const Desc& scratchpad) {
  if (scratchpad.get_size() > 0) arguments.emplace_back(DNNL_ARG_SCRATCHPAD, temporary(scratchpad));
  std::erase_if(arguments, [](const auto& argument) { return argument.second < 0; });
  const auto written = std::stable_partition(
      arguments.begin(), arguments.end(), [](const auto& argument) { return !is_written(argument.first); });
  std::vector<RegionId> reads;
  std::vector<RegionId> writes;
  Target::Work work{primitive, {}, {}};
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    work.arguments.push_back(argument->first);
    (argument < written ? reads : writes).push_back(argument->second);
  }
  add_step(reads, writes, std::move(work));
}

void Lowering::reorder(RegionId from, RegionId to) {
  const Desc source = layout_of(from);
  const Desc target = layout_of(to);
  if (source.dims().size() != target.dims().size()) {  // of weights, whose groups are an axis of one of both
    RegionId even = from;
    if (const Desc rows = plain_like(source, Shape(source.dims())); source != rows)
      reorder(from, even = temporary(rows));
    reorder(view(even, plain_like(source, Shape(target.dims()))), to);
    return;
  }
  if (const WeightsToBf16 convert = weights_to_bf16(layout_of(from), layout_of(to))) {
    add_step({from}, {to},
             {{}, {}, [=](const Pointers& p) { convert(p.get<const float>(0), p.get<uint16_t>(1)); }})
        .reorders = true;
    return;
  }
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc pd(engine(), layout_of(from), engine(), layout_of(to), attributes);
  primitive(pd, dnnl::reorder(pd), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  last_step().reorders = true;
}

}  // namespace telar::cpu
