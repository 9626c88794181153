#include "python/native/python_session.h"

#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/assignment.h"
#include "telar/device/cuda.h"
#include "telar/observe/process.h"
#include "telar/strategy/server_side.h"
#include "telar/train/job_devices.h"

namespace telar::python {

namespace nb = nanobind;

namespace {

void require_form(const BatchTensor& input, const AnyArray& array) {
  const Shape shape = shape_of(array);
  const bool fits = shape.rank() == input.shape.rank() + 1 && has_dtype(array, input.dtype) &&
                    std::equal(input.shape.begin(), input.shape.end(), shape.begin() + 1);
  if (!fits)
    throw user_error("the input '{}' must be {} with {} for each sample, not an array of {} bits with {}",
                     input.name, name_of(input.dtype), input.shape.str(), array.dtype().bits, shape.str());
}

/// In each process.
int64_t workers_of(const StrategyType& type, const Attributes& given, const Processes* processes) {
  const Workers workers = make_strategy(type.name, given).workers();
  if (processes == nullptr || !workers.of_all_processes) return workers.count;
  if (workers.count % processes->size() != 0)
    throw user_error(
        "the strategy {} has {} workers in all processes together, which {} processes cannot divide equally",
        type.name, workers.count, processes->size());
  return workers.count / processes->size();
}

/// The devices of the workers, one for each; those of CPUs divide `threads`, or 0: those of this process.
std::vector<DeviceSpec> devices_of(const StrategyType& type, const std::vector<std::string>& names,
                                   int64_t workers, int threads, const Processes* processes) {
  if (names.size() != 1 && static_cast<int64_t>(names.size()) != workers)
    throw user_error("there are {} devices for {} workers; name one for all of them, or one for each",
                     names.size(), workers);
  const std::string missing = missing_device(names);
  if (!missing.empty()) throw user_error("{}", missing);
  const bool has_gpu = device_named(names[0]).kind != "cpu";
  const bool shares_gpus = has_gpu && processes != nullptr;
  const int gpus = shares_gpus ? static_cast<int>(find_cuda_gpus().gpus.size()) : 0;
  const int index = shares_gpus ? processes->index_on_this_host() : 0;
  const int all =
      threads > 0 ? threads : available_threads(processes == nullptr ? 1 : processes->on_this_host());
  std::vector<DeviceSpec> devices;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const std::string& name = names[names.size() == 1 ? 0 : static_cast<size_t>(worker)];
    DeviceSpec device = device_named(name, index, gpus);
    if ((device.kind != "cpu") != has_gpu)
      throw user_error("the workers run on {} and on {}; they must all run on CPUs, or all on GPUs", names[0],
                       name);
    if (device.threads == 0) device.threads = std::max<int>(1, all / static_cast<int>(workers));
    devices.push_back(std::move(device));
  }
  if (has_gpu && !type.on_gpus)
    throw user_error("the workers of the strategy {} run on CPUs, not on {}", type.name, names[0]);
  return devices;
}

Cluster cluster_of(const StrategyType& type, std::vector<DeviceSpec> devices, int servers,
                   const Processes* processes) {
  if (type.uses_servers) return {.devices = {devices.front()}, .servers = servers};
  return {.devices = std::move(devices),
          .processes = processes == nullptr ? 1 : processes->size(),
          .process = processes == nullptr ? 0 : processes->rank()};
}

}  // namespace

PythonSession::PythonSession(const PythonModel& model, const StepOptions& options, const StrategyType& type,
                             const Attributes& given, const std::vector<std::string>& devices, int threads,
                             int servers, uint64_t seed, std::shared_ptr<Processes> processes)
    : external_(model.external()),
      processes_(std::move(processes)),
      has_servers_(type.uses_servers),
      workers_(workers_of(type, given, processes_.get())),
      seed_(seed),
      cluster_(cluster_of(type, devices_of(type, devices, workers_, threads, processes_.get()), servers,
                          processes_.get())) {
  if (external_ != nullptr && usual_workers(type).of_all_processes)
    throw user_error(
        "the strategy {} divides the layers of a model, which Telar cannot do when PyTorch computes them; choose one whose workers share batches",
        type.name);
  if (type.uses_servers && devices.size() != 1)
    throw user_error("there are {} devices; the workers of the strategy {} share one here", devices.size(),
                     type.name);
  if (processes_ != nullptr && type.uses_servers)
    throw user_error("the strategy {} is not for a group, whose processes make each step together",
                     type.name);
  if (servers < 1) throw user_error("the number of servers is {}; it must be at least 1", servers);
  program_ = make_strategy(type.name, given).rewrite(make_training_step(model.model(), options), cluster_);
  session_ = std::make_unique<Session>(has_servers_ ? coordinator_program(program_) : program_, cluster_,
                                       SessionOptions{.seed = seed, .processes = processes_.get()});
  inputs_ = session_->inputs();
  limits_ = index_limits(model.graphs());
}

PythonSession::~PythonSession() {
  const nb::gil_scoped_release others_may_run;
  session_.reset();
}

BatchView PythonSession::batch_of(const nb::dict& arrays, const std::optional<IdArray>& samples) {
  BatchView batch;
  bool first = true;
  for (const auto& [key, value] : arrays) {
    const auto name = nb::cast<std::string_view>(key);
    const auto found = std::find_if(inputs_.begin(), inputs_.end(),
                                    [name](const BatchTensor& input) { return input.name == name; });
    if (found == inputs_.end()) continue;
    const auto array = nb::cast<AnyArray>(value);
    require_form(*found, array);
    require_known(found->name, array);
    const auto size = static_cast<int64_t>(array.shape(0));
    if (!first && size != batch.size)
      throw user_error("the inputs of a batch have {} and {} samples", batch.size, size);
    first = false;
    batch.size = size;
    batch.inputs.push_back({found->name, array.data()});
  }
  if (samples) {
    if (static_cast<int64_t>(samples->size()) != batch.size)
      throw user_error("there are {} sample ids for {} samples", samples->size(), batch.size);
    batch.sample = samples->data();
    return batch;
  }
  ids_.resize(static_cast<size_t>(batch.size));
  std::iota(ids_.begin(), ids_.end(), 0);
  batch.sample = ids_.data();
  return batch;
}

bool PythonSession::repeats_samples() const {
  return processes_ != nullptr && shares_of(program_) < processes_->size();
}

PlaceInBatch PythonSession::place_in_batch(const std::vector<int64_t>& sizes,
                                           const std::vector<std::string>& checksums) const {
  const auto share = [&](size_t rank) { return shares_of(program_, static_cast<int64_t>(rank)); };
  const auto own = static_cast<size_t>(processes_->rank());
  std::map<int64_t, size_t> first;  // the lowest rank of each share
  PlaceInBatch place;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    const auto [known, is_new] = first.try_emplace(share(rank).begin, rank);
    if (checksums[rank] != checksums[known->second] || sizes[rank] != sizes[known->second])
      throw user_error(
          "ranks {} and {} compute the same samples with the strategy {}, but they were given different ones",
          known->second, rank, program_.strategy);
    if (!is_new) continue;
    place.all += sizes[rank];
    if (share(rank).begin < share(own).begin) place.before += sizes[rank];
  }
  // Workers that compute a batch together know each other's samples by their number.
  for (size_t rank = 0; !program_.batch_group.empty() && rank < sizes.size(); ++rank) {
    const Part part{share(rank).begin, share(rank).end, share(rank).of, program_.least.part};
    const int64_t expected = part.last(place.all) - part.first(place.all);
    if (sizes[rank] != expected)
      throw user_error("rank {} gives {} of {} samples; with the strategy {} it must be {}", rank,
                       sizes[rank], place.all, program_.strategy, expected);
  }
  return place;
}

/// Throws Error (user) for tokens or labels that the model does not know.
void PythonSession::require_known(const std::string& input, const AnyArray& array) const {
  const auto limit = limits_.find(input);
  if (limit == limits_.end()) return;
  const auto* numbers = static_cast<const int32_t*>(array.data());
  const std::vector<int64_t>& known = limit->second;
  const size_t elements = array.size() / std::max<size_t>(1, array.shape(0));
  for (size_t i = 0; i < array.size(); ++i) {
    const size_t element = i % elements;
    if (element < known.size() && (numbers[i] < 0 || numbers[i] >= known[element]))
      throw user_error("the input '{}' has {}; the model knows 0 to {} there", input, numbers[i],
                       known[element] - 1);
  }
}

}  // namespace telar::python
