#include "telar/train/spread_data.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/moments.h"
#include "telar/data/part_of.h"
#include "telar/data/source.h"
#include "telar/observe/process.h"
#include "telar/train/job_strategy.h"

namespace telar {

namespace {

using Json = nlohmann::json;

/// What `work` returns in each process, in rank order. If it throws Error in some of them, all throw that of
/// the first one, with its rank.
std::vector<Json> found_by_all(Processes* all, const std::function<Json()>& work) {
  if (all == nullptr) return {work()};
  Json here;
  try {
    here["found"] = work();
  } catch (const Error& error) {
    here["error"] = fmt::format("rank {} on {}: {}", all->rank(), host_name(), error.what());
    here["user"] = error.kind() == Error::Kind::user;
  }
  all->sleep_until_all_come();
  std::vector<Json> found;
  for (const std::string& text : all->gather(here.dump(-1, ' ', false, Json::error_handler_t::replace))) {
    const Json there = Json::parse(text);
    if (there.contains("error"))
      throw Error(there.at("user").get<bool>() ? Error::Kind::user : Error::Kind::run,
                  there.at("error").get<std::string>());
    found.push_back(there.at("found"));
  }
  return found;
}

Json form_of_samples(const DatasetPtr& samples) {
  if (samples == nullptr) return {};
  const SampleSpec& spec = samples->spec();
  std::string labels = fmt::format("{} classes", spec.classes);
  if (spec.labels_positions()) labels += " at each position of " + spec.labels.str();
  if (spec.classes == 0) labels = "targets " + spec.labels.str();
  if (!spec.class_names.empty()) labels = "classes by name";
  return {{"form", fmt::format("{} {} with {}", name_of(spec.dtype), spec.features.str(), labels)},
          {"classes", spec.class_names}};
}

/// The samples with the classes of all parts. `found`: of each rank, the forms of its "train" and "test"
/// samples.
DatasetPtr alike(DatasetPtr samples, const std::vector<Json>& found, const char* part) {
  if (samples == nullptr) return samples;
  std::set<std::string> names;
  const auto first = found.front().at(part).at("form").get<std::string>();
  for (size_t rank = 0; rank < found.size(); ++rank) {
    const auto form = found[rank].at(part).at("form").get<std::string>();
    if (form != first)
      throw user_error("rank {} has samples of {}, but rank 0 of {}; all processes need samples of one form",
                       rank, form, first);
    for (const auto& name : found[rank].at(part).at("classes")) names.insert(name.get<std::string>());
  }
  return names.empty() ? samples : with_classes(std::move(samples), {names.begin(), names.end()});
}

int64_t size_of_part(const DatasetPtr& samples) { return samples == nullptr ? 0 : samples->size(); }

PartSizes sizes_of(const std::vector<Json>& found, const char* part) {
  PartSizes sizes;
  for (const Json& there : found) sizes.push_back(there.at(part).get<int64_t>());
  return sizes;
}

/// The part with the numbers that its samples have among all.
DatasetPtr numbered(DatasetPtr samples, const PartSizes& sizes, size_t own) {
  if (samples == nullptr) return samples;
  const auto begin = sizes.begin();
  return part_of(std::move(samples),
                 std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(own), int64_t{0}),
                 std::accumulate(begin, sizes.end(), int64_t{0}));
}

/// Those of all parts, in rank order, so that all processes compute the same.
Moments moments_of_all(const std::vector<Json>& found) {
  MomentSums all;
  for (const Json& there : found) {
    const Json& part = there.at("moments");
    all.add({part.at("values").get<double>(), part.at("mean").get<std::vector<double>>(),
             part.at("squares").get<std::vector<double>>()},
            part.at("weight").get<double>());
  }
  return moments_of(all);
}

/// Those of the files of one option, "data.path".
std::map<std::string, SourceFiles> files_behind(const DataRecord& record, std::string_view option) {
  std::map<std::string, SourceFiles> files = record.sources;
  std::erase_if(files, [&](const auto& source) { return !source.first.starts_with(option); });
  return files;
}

/// Two processes that see the same folder would train on each sample twice.
void require_own_files(const std::vector<DataRecord>& records) {
  for (const char* option : {"data.path", "data.test_path"}) {
    for (size_t rank = 1; rank < records.size(); ++rank) {
      for (size_t before = 0; before < rank; ++before) {
        const auto files = files_behind(records[rank], option);
        if (files.empty() || files != files_behind(records[before], option)) continue;
        throw user_error(
            "ranks {} and {} have the same files in {}; with data.spread, each process needs files of its own: others under the same path on its host, or {{rank}} in the path",
            before, rank, option);
      }
    }
  }
}

DataRecord record_of_all(const std::vector<DataRecord>& records, const SampleSpec& spec) {
  DataRecord all;
  all.class_names = spec.class_names;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    const DataRecord& part = records[rank];
    all.train += part.train;
    all.validation += part.validation;
    all.test += part.test;
    for (const auto& [name, files] : part.sources)
      all.sources[fmt::format("rank {}: {}", rank, name)] = files;
  }
  return all;
}

/// The names of a table's columns, that of the label last; empty of other samples and without a header.
std::vector<std::string> columns_of(const OpenedSource& source) {
  if (!source.decided.has("columns")) return {};
  std::vector<std::string> columns = source.decided.texts("columns");
  if (source.decided.has("label")) columns.push_back(source.decided.text("label"));
  return columns;
}

/// Throws Error (user) unless the tables of all processes have the same columns, in whatever order.
void require_same_columns(const std::vector<Json>& found) {
  const auto sorted = [&](size_t rank) {
    auto columns = found[rank].get<std::vector<std::string>>();
    std::ranges::sort(columns);
    return columns;
  };
  for (size_t rank = 1; rank < found.size(); ++rank) {
    if (sorted(rank) != sorted(0))
      throw user_error(
          "rank {} has the columns {}, but rank 0 {}; all processes need the same, in any order (data.columns chooses some)",
          rank, found[rank].dump(), found.front().dump());
  }
}

/// The sources of this process, with the classes of all and the columns in the order of rank 0.
JobSources sources_alike(DataJob& own, uint64_t seed, const SampleChecks* checks, Processes* all) {
  JobSources sources;
  const auto open = [&] { sources = open_sources(own, seed, picture_listing(own, checks)); };
  const auto found_columns = found_by_all(all, [&]() -> Json {
    open();
    return columns_of(sources.train);
  });
  require_same_columns(found_columns);
  const auto columns = found_columns.front().get<std::vector<std::string>>();
  const auto found = found_by_all(all, [&]() -> Json {
    if (columns_of(sources.train) != columns) {
      own.options.set("columns", std::vector<std::string>(columns.begin(), columns.end() - 1));
      own.options.set("label", columns.back());
      open();
    }
    return {{"train", form_of_samples(sources.train.samples)},
            {"test", form_of_samples(sources.test.samples)}};
  });
  sources.train.samples = alike(std::move(sources.train.samples), found, "train");
  sources.test.samples = alike(std::move(sources.test.samples), found, "test");
  return sources;
}

/// What this process has, for the others.
Json described_part(const DataJob& own, uint64_t seed, const Datasets& parts) {
  Json here = {{"train", size_of_part(parts.train)},
               {"validation", size_of_part(parts.validation)},
               {"test", size_of_part(parts.test)},
               {"left_out", parts.left_out.count()},
               {"record", to_json(data_record(own, parts))}};
  if (!measures_moments(own, parts.spec())) return here;
  const MeasuredMoments measured = measure_moments(own, *parts.train, seed);
  here["moments"] = {{"values", measured.sums.values},
                     {"mean", measured.sums.mean},
                     {"squares", measured.sums.squares},
                     {"weight", measured.weight}};
  return here;
}

/// Of all processes; only rank 0 prints.
void warn_of_all(const std::vector<Json>& found, const SampleChecks* checks) {
  if (checks == nullptr || !checks->warn) return;
  for (size_t rank = 0; rank < found.size(); ++rank) {
    for (const auto& warning : found[rank].at("warnings"))
      checks->warn(fmt::format("rank {}: {}", rank, warning.get<std::string>()));
  }
}

/// Divides the samples of this process, and describes for the others what it has.
Json divide_own(const DataJob& own, uint64_t seed, const SampleChecks* checks, JobSources sources,
                Datasets& parts) {
  std::vector<std::string> warnings;
  SampleChecks collecting = checks == nullptr ? SampleChecks{} : *checks;
  collecting.warn = [&](const std::string& text) { warnings.push_back(text); };
  parts = divide(own, seed, std::move(sources));
  leave_out_samples(parts, find_unreadable(own, checks == nullptr ? nullptr : &collecting, parts));
  Json here = described_part(own, seed, parts);
  warnings.insert(warnings.end(), parts.notes.begin(), parts.notes.end());
  parts.notes.clear();
  here["warnings"] = warnings;
  return here;
}

std::vector<DataRecord> records_in(const std::vector<Json>& found) {
  std::vector<DataRecord> records;
  for (const Json& there : found)
    records.push_back(
        data_record_from_json(there.at("record").get<std::string>(), fmt::format("rank {}", records.size())));
  return records;
}

/// Gives the samples of this process the numbers that they have among all.
void number_samples(Datasets& parts, const std::vector<Json>& found, int rank) {
  const PartSizes left_out = sizes_of(found, "left_out");
  parts.spread = {static_cast<size_t>(rank), sizes_of(found, "train"), sizes_of(found, "validation"),
                  sizes_of(found, "test"), std::accumulate(left_out.begin(), left_out.end(), int64_t{0})};
  const SpreadParts& spread = *parts.spread;
  parts.train = numbered(std::move(parts.train), spread.train, spread.own);
  parts.validation = numbered(std::move(parts.validation), spread.validation, spread.own);
  parts.test = numbered(std::move(parts.test), spread.test, spread.own);
}

}  // namespace

DataJob data_of_rank(const DataJob& data, int rank) {
  constexpr std::string_view kRank = "{rank}";
  DataJob own = data;
  for (const std::string& option : source_type(data.source).paths) {
    std::string path = data.options.text(option);
    for (size_t at = path.find(kRank); at != std::string::npos; at = path.find(kRank, at))
      path.replace(at, kRank.size(), std::to_string(rank));
    own.options.set(option, path);
  }
  return own;
}

SpreadDatasets open_spread_datasets(Job& job, const SampleChecks* checks, Processes* all) {
  if (all != nullptr)
    require_shares_of_batches(job, all->size(), "samples of which each process has a part (data.spread)");
  const int rank = all == nullptr ? 0 : all->rank();
  const auto seed = static_cast<uint64_t>(job.training.seed);
  DataJob own = data_of_rank(job.data, rank);
  JobSources sources = sources_alike(own, seed, checks, all);
  for (const auto& [option, value] : sources.train.decided) job.data.options.set(option, value);
  Datasets parts;
  const std::vector<Json> found =
      found_by_all(all, [&] { return divide_own(own, seed, checks, std::move(sources), parts); });
  warn_of_all(found, checks);
  const std::vector<DataRecord> records = records_in(found);
  require_own_files(records);
  if (found.front().contains("moments")) take_moments(job.data, moments_of_all(found), parts.notes);
  number_samples(parts, found, rank);
  prepare(job.data, seed, parts);
  const std::vector<std::string>& classes = parts.spec().class_names;  // of all processes
  if (job.data.options.has("class_names") && !classes.empty()) job.data.options.set("class_names", classes);
  DataRecord record = record_of_all(records, parts.spec());
  return {std::move(parts), std::move(record)};
}

SampleSpec spec_of_samples(Job& job) {
  if (const auto known = spec_without_files(job.data)) return *known;
  if (job.data.spread) return open_spread_datasets(job, nullptr, nullptr).data.spec();
  return open_datasets(job.data, static_cast<uint64_t>(job.training.seed)).spec();
}

}  // namespace telar
