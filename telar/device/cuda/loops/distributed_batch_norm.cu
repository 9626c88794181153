#include "telar/device/cuda/loops/distributed_batch_norm.h"

#include "telar/device/cuda/loops/launch.h"

namespace telar::cuda {

cudaError_t combine_statistics(const float* rows, int64_t members, int64_t channels,
                               const CombinedStatistics& to, cudaStream_t stream) {
  const int64_t length = 2 * channels + 1;
  return for_each(channels, stream, [=] TELAR_GPU(int64_t c) {
    double count = 0;
    double mean = 0;
    double squares = 0;
    for (int64_t member = 0; member < members; ++member) {
      const float* row = rows + member * length;
      const double more = row[length - 1];
      if (more == 0) continue;
      const double apart = row[c] - mean;
      squares += row[channels + c] + apart * apart * count * more / (count + more);
      mean += apart * more / (count + more);
      count += more;
    }
    to.statistics[c] = to.mean[c] = static_cast<float>(mean);
    to.statistics[channels + c] = static_cast<float>(squares / count);
    const double divisor = to.biased ? count : count - 1;
    to.variance[c] = static_cast<float>(count > 1 ? squares / divisor : squares);
    if (c == 0) to.statistics[length - 1] = static_cast<float>(count);
  });
}

cudaError_t mean_over_members(const float* rows, int64_t members, int64_t length, const float* count,
                              float* means, cudaStream_t stream) {
  return for_each(length, stream, [=] TELAR_GPU(int64_t i) {
    float sum = 0;
    for (int64_t member = 0; member < members; ++member) sum += rows[member * length + i];
    means[i] = sum / *count;
  });
}

}  // namespace telar::cuda
