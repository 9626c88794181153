#include "telar/data/dataset_batches.h"

#include <utility>

#include "telar/core/error.h"

namespace telar {

namespace {

/// A sample is announced to the dataset while the one that is this many samples earlier is read.
constexpr size_t kAhead = 2;

struct Place {
  uint32_t epoch = 0;
  int64_t step = 0;
};

constexpr size_t kEpochBytes = 4;
constexpr size_t kStepBytes = 8;

/// Big-endian, so that the bytes are ordered as the numbers are.
void append(std::string& bytes, uint64_t number, size_t count) {
  for (size_t i = count; i-- > 0;) bytes += static_cast<char>(number >> (8 * i));
}

uint64_t number_in(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8U | static_cast<unsigned char>(byte);
  return number;
}

Position position_of(const Place& place) {
  Position position;
  append(position.bytes, place.epoch, kEpochBytes);
  append(position.bytes, static_cast<uint64_t>(place.step), kStepBytes);
  return position;
}

Place place_of(const Position& position, const Assignment& assignment) {
  const std::string_view bytes = position.bytes;
  if (bytes.size() != kEpochBytes + kStepBytes)
    throw user_error("a position of {} bytes is not one of these samples; theirs have {}", bytes.size(),
                     kEpochBytes + kStepBytes);
  const auto epoch = static_cast<uint32_t>(number_in(bytes.substr(0, kEpochBytes)));
  const uint64_t step = number_in(bytes.substr(kEpochBytes));
  const auto steps = static_cast<uint64_t>(assignment.steps(epoch));
  if (step > steps)
    throw user_error("epoch {} has no position after {} steps; it has {} steps", epoch, step, steps);
  return {epoch, static_cast<int64_t>(step)};
}

std::vector<BatchTensor> tensors_of(const SampleSpec& spec) {
  const bool classes = spec.classes > 0;
  return {{"x", spec.dtype, spec.features},
          {"label", classes ? DType::i32 : DType::f32, classes ? Shape{} : spec.targets}};
}

}  // namespace

DatasetBatches::DatasetBatches(const Dataset& data, const Assignment& assignment, uint64_t seed)
    : data_(data), assignment_(assignment), seed_(seed), tensors_(tensors_of(data.spec())) {}

Position DatasetBatches::begin(uint32_t pass) const { return position_of({pass, 0}); }

std::optional<Position> DatasetBatches::find(uint32_t pass, int64_t batches) const {
  if (batches < 0 || batches > assignment_.steps(pass)) return std::nullopt;
  return position_of({pass, batches});
}

std::optional<PassSize> DatasetBatches::size(uint32_t pass) const {
  return PassSize{assignment_.steps(pass), data_.size()};
}

bool DatasetBatches::at_end(const Position& position) const {
  const Place place = place_of(position, assignment_);
  return place.step == assignment_.steps(place.epoch);
}

std::optional<Position> DatasetBatches::after(const Position& position) const {
  Place place = place_of(position, assignment_);
  ++place.step;
  return position_of(place);
}

void DatasetBatches::read(const Position& position, Batch& batch, const std::stop_token& /*stop*/) const {
  const Place place = place_of(position, assignment_);
  const std::vector<int64_t> samples = assignment_.samples(place.epoch, place.step);
  for (const int64_t sample : samples) {
    if (sample >= 0 && sample < data_.size()) continue;
    throw run_error("Sample {} was assigned to step {} of epoch {}, but the dataset has {} samples", sample,
                    place.step, place.epoch, data_.size());
  }
  batch.resize(static_cast<int64_t>(samples.size()));
  batch.epoch = place.epoch;
  batch.all_samples = assignment_.batch_samples(place.epoch, place.step);
  batch.after = position_of({place.epoch, place.step + 1});
  const SampleKey key{seed_, place.epoch};
  const size_t features = data_.spec().feature_bytes();
  const size_t labels = data_.spec().label_bytes();
  const std::span<int64_t> ids = batch.ids();
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i + kAhead < samples.size()) data_.expect(samples[i + kAhead]);
    data_.read(samples[i], key, {batch.data(0) + i * features, features},
               {batch.data(1) + i * labels, labels});
    ids[i] = samples[i];
  }
}

}  // namespace telar
