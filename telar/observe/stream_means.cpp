#include "telar/observe/stream_means.h"

#include <algorithm>
#include <cmath>

namespace telar {

namespace {

void add_sums(std::vector<double>& to, std::span<const double> sums) {
  to.resize(sums.size());
  for (size_t m = 0; m < sums.size(); ++m) to[m] += sums[m];
}

std::vector<double> means_of(std::vector<double> sums, double samples) {
  for (double& sum : sums) sum /= samples;
  return sums;
}

}  // namespace

void StreamMeans::add(const StreamMeanOptions& options, std::span<const double> sums, int64_t samples) {
  const int64_t least = std::max<int64_t>(1, options.window / kBucketsInWindow);
  if (buckets.empty() || buckets.back().samples >= least) buckets.push_back({});
  buckets.back().samples += samples;
  add_sums(buckets.back().sums, sums);
  int64_t all = 0;
  for (const Bucket& bucket : buckets) all += bucket.samples;
  auto first = buckets.begin();
  for (; all - first->samples >= options.window; ++first) all -= first->samples;
  buckets.erase(buckets.begin(), first);
  if (buckets.size() > 2 * kBucketsInWindow) {  // of a smaller window before
    Bucket& second = buckets[1];
    second.samples += buckets[0].samples;
    add_sums(second.sums, buckets[0].sums);
    buckets.erase(buckets.begin());
  }

  const double faded = std::pow(options.fading, static_cast<double>(samples));
  for (double& sum : fading_sums) sum *= faded;
  add_sums(fading_sums, sums);
  fading_samples = faded * fading_samples + static_cast<double>(samples);
}

std::vector<double> StreamMeans::windowed() const {
  std::vector<double> sums;
  int64_t samples = 0;
  for (const Bucket& bucket : buckets) {
    add_sums(sums, bucket.sums);
    samples += bucket.samples;
  }
  return means_of(std::move(sums), static_cast<double>(samples));
}

std::vector<double> StreamMeans::fading() const { return means_of(fading_sums, fading_samples); }

}  // namespace telar
