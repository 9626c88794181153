#include "telar/data/assigned_batches.h"

#include <string_view>
#include <utility>

#include "telar/core/error.h"

namespace telar {

namespace {

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

}  // namespace

AssignedBatches::AssignedBatches(std::vector<BatchTensor> tensors, int64_t samples,
                                 const Assignment& assignment)
    : tensors_(std::move(tensors)), samples_(samples), assignment_(assignment) {}

Position AssignedBatches::begin(uint32_t pass) const { return position_of({pass, 0}); }

std::optional<Position> AssignedBatches::find(uint32_t pass, int64_t batches) const {
  if (batches < 0 || batches > assignment_.steps(pass)) return std::nullopt;
  return position_of({pass, batches});
}

std::optional<PassSize> AssignedBatches::size(uint32_t pass) const {
  return PassSize{assignment_.steps(pass), samples_};
}

bool AssignedBatches::at_end(const Position& position) const {
  const Place place = place_of(position, assignment_);
  return place.step == assignment_.steps(place.epoch);
}

std::optional<Position> AssignedBatches::after(const Position& position) const {
  Place place = place_of(position, assignment_);
  ++place.step;
  return position_of(place);
}

void AssignedBatches::read(const Position& position, Batch& batch, const std::stop_token& /*stop*/) const {
  const Place place = place_of(position, assignment_);
  const std::vector<int64_t> samples = assignment_.samples(place.epoch, place.step);
  for (const int64_t sample : samples) {
    if (sample >= 0 && sample < samples_) continue;
    throw run_error("Sample {} was assigned to step {} of epoch {}, but there are {} samples", sample,
                    place.step, place.epoch, samples_);
  }
  batch.resize(static_cast<int64_t>(samples.size()));
  batch.epoch = place.epoch;
  batch.all_samples = assignment_.batch_samples(place.epoch, place.step);
  batch.after = position_of({place.epoch, place.step + 1});
  std::ranges::copy(samples, batch.ids().begin());
  read_samples(samples, batch);
}

}  // namespace telar
