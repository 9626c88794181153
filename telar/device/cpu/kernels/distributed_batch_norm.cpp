#include <cmath>
#include <vector>

#include "telar/core/bf16.h"
#include "telar/core/error.h"
#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/parallel.h"
#include "telar/graph/ops/batch_norm.h"

namespace telar::cpu {

namespace {

/// The offset of element (n, c, s) of an image tensor is n·sample + (c / block)·group + s·pixel + c % block.
/// This covers plain, channels-last and blocked layouts; s counts H·W.
struct ImageLayout {
  int64_t samples, channels, pixels;
  int64_t block;
  int64_t sample, group, pixel;
  int64_t groups() const { return (channels + block - 1) / block; }
  int64_t in_group(int64_t g) const { return std::min(block, channels - g * block); }
};

Desc supported(const Desc& desc, DType dtype, const Shape& shape) {
  if (shape.rank() == 2) return plain(dtype, shape);
  return like(desc, dtype, shape);
}

ImageLayout layout_of(const Desc& desc, const Shape& shape) {
  const int64_t channels = shape[1];
  const int64_t pixels = shape.rank() == 4 ? shape[2] * shape[3] : 1;
  if (shape.rank() == 4) {
    for (const auto& [tag, block] : {std::pair{Tag::aBcd16b, 16}, {Tag::aBcd8b, 8}, {Tag::aBcd4b, 4}}) {
      if (desc == Desc(desc.dims(), desc.data_type(), tag)) {
        const int64_t groups = (channels + block - 1) / block;
        return {shape[0], channels, pixels, block, groups * block * pixels, block * pixels, block};
      }
    }
    if (desc == Desc(desc.dims(), desc.data_type(), Tag::abcd)) {
      return {shape[0], channels, pixels, 1, channels * pixels, pixels, 1};
    }
  }
  return {shape[0], channels, pixels, channels, channels * pixels, channels, channels};
}

float load(const float* p) { return *p; }
float load(const uint16_t* p) { return from_bf16(*p); }
void store(float* p, float value) { *p = value; }
void store(uint16_t* p, float value) { *p = to_bf16(value); }

/// Calls body(c, index of the element) for every element of the channels in group g, sample by sample.
template <typename Body>
void for_each_in_group(const ImageLayout& l, int64_t g, const Body& body) {
  const int64_t width = l.in_group(g);
  for (int64_t n = 0; n < l.samples; ++n) {
    for (int64_t s = 0; s < l.pixels; ++s) {
      const int64_t base = n * l.sample + g * l.group + s * l.pixel;
      for (int64_t b = 0; b < width; ++b) body(g * l.block + b, base + b);
    }
  }
}

template <typename Body>
void for_each_group(const ImageLayout& l, const Body& body) {
  parallel_for(l.groups(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) body(g);
  });
}

template <typename T>
void statistics(const ImageLayout& l, const T* x, float* out) {
  std::vector<double> sum(static_cast<size_t>(l.channels));
  std::vector<double> squares(static_cast<size_t>(l.channels));
  const double count = static_cast<double>(l.samples * l.pixels);
  for_each_group(l, [&](int64_t g) {
    for_each_in_group(l, g, [&](int64_t c, int64_t i) { sum[static_cast<size_t>(c)] += load(x + i); });
    for_each_in_group(l, g, [&](int64_t c, int64_t i) {
      const double deviation = load(x + i) - sum[static_cast<size_t>(c)] / count;
      squares[static_cast<size_t>(c)] += deviation * deviation;
    });
  });
  for (int64_t c = 0; c < l.channels; ++c) {
    out[c] = static_cast<float>(sum[static_cast<size_t>(c)] / count);
    out[l.channels + c] = static_cast<float>(squares[static_cast<size_t>(c)]);
  }
  out[2 * l.channels] = static_cast<float>(count);
}

template <typename T>
void apply(const ImageLayout& l, float epsilon, const T* x, const float* gamma, const float* beta,
           const float* stats, T* y) {
  for_each_group(l, [&](int64_t g) {
    for_each_in_group(l, g, [&](int64_t c, int64_t i) {
      const float inverse = 1.0F / std::sqrt(stats[l.channels + c] + epsilon);
      store(y + i, gamma[c] * ((load(x + i) - stats[c]) * inverse) + beta[c]);
    });
  });
}

template <typename T>
void backward_sums(const ImageLayout& l, float epsilon, const T* x, const T* dy, const float* stats,
                   float* both) {
  for_each_group(l, [&](int64_t g) {
    std::vector<double> sums(static_cast<size_t>(2 * l.block));
    for_each_in_group(l, g, [&](int64_t c, int64_t i) {
      const double gradient = load(dy + i);
      const double inverse = 1.0 / std::sqrt(stats[l.channels + c] + epsilon);
      sums[static_cast<size_t>(c - g * l.block)] += gradient;
      sums[static_cast<size_t>(c - g * l.block + l.block)] += gradient * (load(x + i) - stats[c]) * inverse;
    });
    for (int64_t b = 0; b < l.in_group(g); ++b) {
      both[g * l.block + b] = static_cast<float>(sums[static_cast<size_t>(b)]);
      both[l.channels + g * l.block + b] = static_cast<float>(sums[static_cast<size_t>(b + l.block)]);
    }
  });
}

template <typename T>
void backward_apply(const ImageLayout& l, float epsilon, const T* x, const T* dy, const float* gamma,
                    const float* stats, const std::vector<float>& sums, T* dx) {
  const float count = stats[2 * l.channels];
  for_each_group(l, [&](int64_t g) {
    for_each_in_group(l, g, [&](int64_t c, int64_t i) {
      const float inverse = 1.0F / std::sqrt(stats[l.channels + c] + epsilon);
      const float normalised = (load(x + i) - stats[c]) * inverse;
      const float centred = load(dy + i) - sums[static_cast<size_t>(c)] / count -
                            normalised * sums[static_cast<size_t>(l.channels + c)] / count;
      store(dx + i, gamma[c] * inverse * centred);
    });
  });
}

/// Calls body with a null pointer to the element type: f32 or bf16.
template <typename Body>
void with_element(DType dtype, const Body& body) {
  if (dtype == DType::bf16) {
    body(static_cast<uint16_t*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}

void lower_batch_norm_statistics(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Desc desc = supported(lowering.layout(x), lowering.type(x).dtype, lowering.shape(x));
  const ImageLayout l = layout_of(desc, lowering.shape(x));
  const RegionId from = lowering.region(x, desc);
  with_element(lowering.type(x).dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    lowering.function({from}, {lowering.define_plain(node.outputs[0])},
                      [l](const Pointers& p) { statistics(l, p.get<const T>(0), p.get<float>(1)); });
  });
}

void lower_combine_statistics(Lowering& lowering, const Node& node) {
  const int64_t members = lowering.shape(node.inputs[0])[0];
  const int64_t length = lowering.shape(node.inputs[0])[1];
  const int64_t channels = (length - 1) / 2;
  const double fewer = has_biased_variance(node) ? 0 : 1;
  const std::vector<RegionId> writes{lowering.define_plain(node.outputs[0]),
                                     lowering.define_plain(node.outputs[1]),
                                     lowering.define_plain(node.outputs[2])};
  lowering.function({lowering.plain_region(node.inputs[0])}, writes, [=](const Pointers& p) {
    const auto* rows = p.get<const float>(0);
    double total = 0;
    for (int64_t r = 0; r < members; ++r) total += rows[r * length + length - 1];
    for (int64_t c = 0; c < channels; ++c) {
      double count = 0;
      double mean = 0;
      double squares = 0;
      for (int64_t r = 0; r < members; ++r) {
        const double n = rows[r * length + length - 1];
        if (n == 0) continue;
        const double delta = rows[r * length + c] - mean;
        squares += rows[r * length + channels + c] + delta * delta * count * n / (count + n);
        mean += delta * n / (count + n);
        count += n;
      }
      p.get<float>(1)[c] = static_cast<float>(mean);
      p.get<float>(1)[channels + c] = static_cast<float>(squares / total);
      p.get<float>(2)[c] = static_cast<float>(mean);
      p.get<float>(3)[c] = static_cast<float>(total > 1 ? squares / (total - fewer) : squares);
    }
    p.get<float>(1)[length - 1] = static_cast<float>(total);
  });
}

void lower_batch_norm_apply(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Desc desc = supported(lowering.layout(x), lowering.type(x).dtype, lowering.shape(x));
  const ImageLayout l = layout_of(desc, lowering.shape(x));
  const float epsilon = epsilon_of(node);
  const std::vector<RegionId> reads{lowering.region(x, desc), lowering.plain_region(node.inputs[1]),
                                    lowering.plain_region(node.inputs[2]),
                                    lowering.plain_region(node.inputs[3])};
  with_element(lowering.type(x).dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    lowering.function(reads, {lowering.define(node.outputs[0], desc)}, [=](const Pointers& p) {
      if (l.block > 1 && l.channels % l.block != 0 && l.block != l.channels) {
        std::fill_n(p.get<T>(4), l.samples * l.sample, T{0});  // padding of the last channel group
      }
      apply(l, epsilon, p.get<const T>(0), p.get<const float>(1), p.get<const float>(2),
            p.get<const float>(3), p.get<T>(4));
    });
  });
}

void lower_batch_norm_backward_sums(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Desc desc = supported(lowering.layout(x), lowering.type(x).dtype, lowering.shape(x));
  const ImageLayout l = layout_of(desc, lowering.shape(x));
  const float epsilon = epsilon_of(node);
  const std::vector<RegionId> reads{lowering.region(x, desc), lowering.region(node.inputs[1], desc),
                                    lowering.plain_region(node.inputs[2])};
  const std::vector<RegionId> writes{lowering.define_plain(node.outputs[0]),
                                     lowering.define_plain(node.outputs[1]),
                                     lowering.define_plain(node.outputs[2])};
  with_element(lowering.type(x).dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    lowering.function(reads, writes, [=](const Pointers& p) {
      backward_sums(l, epsilon, p.get<const T>(0), p.get<const T>(1), p.get<const float>(2), p.get<float>(3));
      std::copy_n(p.get<float>(3) + l.channels, l.channels, p.get<float>(4));
      std::copy_n(p.get<float>(3), l.channels, p.get<float>(5));
    });
  });
}

void lower_batch_norm_backward_apply(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Desc desc = supported(lowering.layout(x), lowering.type(x).dtype, lowering.shape(x));
  const ImageLayout l = layout_of(desc, lowering.shape(x));
  const float epsilon = epsilon_of(node);
  const int64_t members = lowering.shape(node.inputs[4])[0];
  const std::vector<RegionId> reads{
      lowering.region(x, desc), lowering.region(node.inputs[1], desc), lowering.plain_region(node.inputs[2]),
      lowering.plain_region(node.inputs[3]), lowering.plain_region(node.inputs[4])};
  with_element(lowering.type(x).dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    lowering.function(reads, {lowering.define(node.outputs[0], desc)}, [=](const Pointers& p) {
      std::vector<float> sums(static_cast<size_t>(2 * l.channels), 0.0F);
      for (int64_t r = 0; r < members; ++r) {
        for (size_t i = 0; i < sums.size(); ++i) {
          sums[i] += p.get<const float>(4)[static_cast<size_t>(r) * sums.size() + i];
        }
      }
      if (l.block > 1 && l.channels % l.block != 0 && l.block != l.channels) {
        std::fill_n(p.get<T>(5), l.samples * l.sample, T{0});
      }
      backward_apply(l, epsilon, p.get<const T>(0), p.get<const T>(1), p.get<const float>(2),
                     p.get<const float>(3), sums, p.get<T>(5));
    });
  });
}

}  // namespace

void register_distributed_batch_norm(Kernels& kernels) {
  kernels.add("batch_norm_apply", lower_batch_norm_apply);
  kernels.add("batch_norm_backward_apply", lower_batch_norm_backward_apply);
  kernels.add("batch_norm_backward_sums", lower_batch_norm_backward_sums);
  kernels.add("batch_norm_statistics", lower_batch_norm_statistics);
  kernels.add("combine_statistics", lower_combine_statistics);
}

}  // namespace telar::cpu
