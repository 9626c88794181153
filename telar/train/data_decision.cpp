#include "telar/train/data_decision.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/data/source.h"
#include "telar/io/json_fields.h"
#include "telar/observe/process.h"
#include "telar/train/file_digest.h"

namespace telar {

namespace {

/// The checksum of some samples, evenly spaced. Images would have to be decoded; their names and sizes are
/// compared instead. Synthetic samples may differ in their last bits between processors.
uint32_t checksum_of_samples(const DataJob& data, const Dataset& samples) {
  const SourceType& type = source_type(data.source);
  if (type.file_each || type.generated) return 0;
  constexpr int64_t kMost = 256;
  const int64_t count = std::min(samples.size(), kMost);
  Buffer features(samples.spec().feature_bytes());
  Buffer label(samples.spec().label_bytes());
  const auto text = [](const Buffer& buffer) {
    return std::string_view(reinterpret_cast<const char*>(buffer.data()), buffer.size());
  };
  uint32_t crc32 = 0;
  for (int64_t i = 0; i < count; ++i) {
    samples.read(i * samples.size() / count, {}, {features.data(), features.size()},
                 {label.data(), label.size()});
    crc32 = crc32_of(text(label), crc32_of(text(features), crc32));
  }
  return crc32;
}

/// What a process finds before samples are left out. Names are as they are sent: JSON cannot contain bytes
/// that are not UTF-8.
DataDecision found_in(const DataJob& data, const Datasets& divided) {
  DataDecision found;
  found.found = data_record_from_json(to_json(data_record(data, divided)), "the data");
  if (!source_type(data.source).file_each) found.found.sources.clear();
  found.samples_crc32 = checksum_of_samples(data, *divided.train);
  return found;
}

/// Keeps what a worker uses.
void keep_training(DataRecord& record) {
  record.validation = record.test = 0;
  std::erase_if(record.sources, [](const auto& source) { return !source.first.starts_with("data.path"); });
}

/// "files of data.path/cats: 3 at the coordinator, 2 here; …"; empty if nothing differs.
std::string differences_text(const DataDecision& decider, const DataDecision& here, const std::string& at) {
  constexpr size_t kShown = 5;
  std::vector<std::string> all = data_differences(decider.found, here.found, at.c_str(), "here");
  if (all.empty() && decider.samples_crc32 != here.samples_crc32) {
    all.push_back(fmt::format("checksum of some training samples: {:08x} {}, {:08x} here",
                              decider.samples_crc32, at, here.samples_crc32));
  }
  const size_t more = all.size() - std::min(all.size(), kShown);
  all.resize(all.size() - more);
  return fmt::format("{}{}", fmt::join(all, "; "), more == 0 ? "" : fmt::format("; and {} more", more));
}

std::vector<int64_t> indices_from(const JsonFields& fields, const std::string& name, int64_t samples) {
  std::vector<int64_t> indices;
  for (const int64_t index : fields.integers(name, 0, std::max<int64_t>(0, samples - 1))) {
    if (!indices.empty() && index <= indices.back()) throw fields.wrong(name, "in ascending order");
    indices.push_back(index);
  }
  return indices;
}

void take_moments(DataJob& data, const DataDecision& decision) {
  data.mean = decision.mean;
  data.std = decision.std;
}

PictureListing sizes_only(int threads) {
  return {.check_headers = false, .reading = {.threads = threads, .watch = {}}};
}

/// Sends what rank 0 has to the other processes, which sleep until then: it may decode images for minutes.
void send_from_rank_0(DataDecision& decision, Processes& all) {
  std::string text = all.rank() == 0 ? to_json(decision) : "";
  all.sleep_until_all_come();
  all.broadcast(text);
  if (all.rank() > 0) decision = data_decision_from_json(text, "rank 0");
}

/// Before rank 0 checks the samples, which may take long.
void require_same_data(const DataDecision& here, Processes& all) {
  DataDecision decider = here;
  send_from_rank_0(decider, all);
  const std::string differences = differences_text(decider, here, "at rank 0");
  const std::string refusal = all.first_text(
      differences.empty()
          ? ""
          : fmt::format(
                "rank {} on {} has other data than rank 0: {}; all processes need the same files in data.path",
                all.rank(), host_name(), differences));
  if (!refusal.empty()) throw user_error("{}", refusal);
}

}  // namespace

std::string to_json(const DataDecision& decision) {
  return nlohmann::json{{"found", to_json(decision.found)},
                        {"samples_crc32", decision.samples_crc32},
                        {"left_out_train", decision.left_out.train},
                        {"left_out_validation", decision.left_out.validation},
                        {"left_out_test", decision.left_out.test},
                        {"mean", decision.mean},
                        {"std", decision.std}}
      .dump();
}

DataDecision data_decision_from_json(const std::string& text, const std::string& source) {
  const JsonFields fields(text, "the data of " + source);
  if (!fields.value("found").is_string()) throw fields.wrong("found", "a record of data, as text");
  DataDecision decision;
  decision.found = data_record_from_json(fields.value("found").get<std::string>(), fields.source());
  decision.samples_crc32 = static_cast<uint32_t>(fields.integer("samples_crc32", 0, UINT32_MAX));
  decision.left_out.train = indices_from(fields, "left_out_train", decision.found.train);
  decision.left_out.validation = indices_from(fields, "left_out_validation", decision.found.validation);
  decision.left_out.test = indices_from(fields, "left_out_test", decision.found.test);
  decision.mean = fields.numbers("mean");
  decision.std = fields.numbers("std");
  return decision;
}

DecidedDatasets open_and_decide(DataJob& data, uint64_t seed, const SampleChecks& checks) {
  DecidedDatasets decided;
  decided.data = open_datasets(data, seed, picture_listing(data, &checks), [&](const Datasets& divided) {
    decided.decision = found_in(data, divided);
    return find_unreadable(data, &checks, divided);
  });
  decided.decision.left_out = decided.data.left_out;
  decided.decision.mean = data.mean;
  decided.decision.std = data.std;
  return decided;
}

Datasets open_datasets_as_decided(DataJob& data, uint64_t seed, const DataDecision& decision, int threads) {
  return open_datasets(data, seed, sizes_only(threads), [&](const Datasets& divided) {
    const std::string differences = differences_text(decision, found_in(data, divided), "at rank 0");
    if (!differences.empty())
      throw user_error("{} has other data than rank 0: {}; all processes need the same files in data.path",
                       host_name(), differences);
    take_moments(data, decision);
    return decision.left_out;
  });
}

DatasetPtr open_train_dataset_as_decided(DataJob& data, uint64_t seed, const DataDecision& decision,
                                         int threads) {
  const auto leave_out = [&](const Datasets& divided) {
    DataDecision decider = decision;
    DataDecision here = found_in(data, divided);
    keep_training(decider.found);
    keep_training(here.found);
    const std::string differences = differences_text(decider, here, "at the coordinator");
    if (!differences.empty()) {
      throw user_error(
          "the data on {} differ from those of the coordinator: {}; a worker needs the same training files in data.path",
          host_name(), differences);
    }
    take_moments(data, decision);
    return LeftOut{decision.left_out.train, {}, {}};
  };
  return open_datasets(data, seed, sizes_only(threads), leave_out).train;
}

DataDecision decide_on_stream(const DataJob& data) {
  DataDecision decision;
  decision.found.sources = format_files(data);
  return decision;
}

void require_as_decided(const DataJob& stream, const DataDecision& decision) {
  const std::string differences = differences_text(decision, decide_on_stream(stream), "at the coordinator");
  if (!differences.empty())
    throw user_error(
        "messages would be read otherwise on {} than by the coordinator: {}; give it the same file",
        host_name(), differences);
}

DecidedDatasets open_datasets_together(DataJob& data, uint64_t seed, const SampleChecks& checks,
                                       Processes& all) {
  const bool decides = all.rank() == 0;
  DataDecision decision;
  Datasets opened =
      open_datasets(data, seed, decides ? picture_listing(data, &checks) : sizes_only(checks.threads),
                    [&](const Datasets& divided) {
                      decision = found_in(data, divided);
                      require_same_data(decision, all);
                      if (decides) return find_unreadable(data, &checks, divided);
                      send_from_rank_0(decision, all);
                      take_moments(data, decision);
                      return decision.left_out;
                    });
  if (!decides) return {std::move(opened), std::move(decision)};
  decision.left_out = opened.left_out;
  decision.mean = data.mean;
  decision.std = data.std;
  send_from_rank_0(decision, all);
  return {std::move(opened), std::move(decision)};
}

}  // namespace telar
