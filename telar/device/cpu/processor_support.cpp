#include "telar/device/cpu/processor_support.h"

#include <fmt/format.h>

#include "telar/device/cpu/onednn.h"

namespace telar::cpu {

namespace {

bool has_avx512() { return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core; }

}  // namespace

std::string winograd_missing() {
  if (DNNL_VERSION_MAJOR < 3 && has_avx512()) return "";
  return fmt::format(
      "training.convolution is winograd, which requires a CPU with AVX-512 and oneDNN 2 (this is oneDNN {}.{}); choose direct",
      DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR);
}

std::string bf16_missing() {
  if (has_avx512()) return "";
  return "bf16 requires a CPU with AVX-512, which this one lacks; choose f32";
}

}  // namespace telar::cpu
