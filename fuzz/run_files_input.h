#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "telar/core/error.h"
#include "telar/train/data_record.h"
#include "telar/train/job_changes.h"
#include "telar/train/job_reader.h"
#include "telar/train/sample_file.h"
#include "telar/train/training_state.h"

// The parts of fuzz/state.cpp, samples.cpp, data_record.cpp and run_job.cpp that do not need libFuzzer, so
// that a test can run them on the corpora. Each returns whether the reader accepts the file, and throws
// std::logic_error if what was read, once written, is read back as something else.

namespace telar::fuzz {

inline std::string text_of(std::span<const uint8_t> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

/// Reads a text twice: the input, and what is written for it.
template <typename Read, typename Write>
bool read_and_write(std::span<const uint8_t> input, Read read, Write write) {
  std::string written;
  try {
    written = write(read(text_of(input)));
  } catch (const Error&) {
    return false;
  }
  if (write(read(written)) != written) throw std::logic_error("written as something else: " + written);
  return true;
}

inline bool read_state(std::span<const uint8_t> input) {
  return read_and_write(
      input,
      [](const std::string& text) {
        TrainingState state = training_state_from_json(text, "state.json");
        check_position(state, {100, 2}, "state.json");
        return state;
      },
      [](const TrainingState& state) { return to_json(state); });
}

inline bool read_samples(std::span<const uint8_t> input) {
  return read_and_write(
      input, [](const std::string& text) { return sample_spec_from_json(text, "samples.json"); },
      [](const SampleSpec& spec) { return to_json(spec, kNewestRules); });
}

inline bool read_data_record(std::span<const uint8_t> input) {
  return read_and_write(
      input, [](const std::string& text) { return data_record_from_json(text, "data.json"); },
      [](const DataRecord& record) { return to_json(record); });
}

/// The job of a run, which is compared with the one with which the run is resumed.
inline bool read_run_job(std::span<const uint8_t> input) {
  return read_and_write(
      input,
      [](const std::string& text) {
        const Job job = parse_job(text, "job.yaml");
        if (!job_changes(job, job).empty()) throw std::logic_error("the job differs from itself");
        job_changes(parse_job("model: mlp\ndata: synthetic\n", "other.yaml"), job);
        return job;
      },
      [](const Job& job) { return job_text(job); });
}

}  // namespace telar::fuzz
