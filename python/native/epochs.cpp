#include "python/native/epochs.h"

#include <nanobind/stl/vector.h>

#include <exception>
#include <mutex>

#include "python/native/fed_batches.h"
#include "telar/core/error.h"
#include "telar/train/thread_cluster.h"

namespace telar::python {

namespace nb = nanobind;

namespace {

/// The first exception of Python in any thread.
class FirstError {
 public:
  void keep(const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  std::exception_ptr take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(error_, nullptr);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// The next batch of Python.
class Next {
 public:
  Next(PythonSession& session, const nb::object& next, FirstError& error)
      : session_(session), next_(next), error_(error) {}

  FedBatch operator()() {
    const nb::gil_scoped_acquire python;
    try {
      auto arrays = std::shared_ptr<nb::object>(new nb::object(next_()), [](nb::object* last) {
        const nb::gil_scoped_acquire lock;
        delete last;
      });
      const BatchView batch = session_.batch_of(nb::cast<nb::dict>(*arrays), std::nullopt);
      FedBatch fed{{}, batch.size, samples_, std::move(arrays)};
      for (const BatchTensor& tensor : session_.inputs()) {
        const auto input = std::find_if(batch.inputs.begin(), batch.inputs.end(),
                                        [&](const BatchInput& one) { return one.name == tensor.name; });
        if (input == batch.inputs.end())
          throw user_error("the input '{}' of the batch is missing", tensor.name);
        fed.data.push_back(static_cast<const std::byte*>(input->data));
      }
      samples_ += batch.size;
      return fed;
    } catch (...) {
      error_.keep(std::current_exception());
      throw run_error("the next batch could not be had");
    }
  }

 private:
  PythonSession& session_;
  const nb::object& next_;
  FirstError& error_;
  int64_t samples_ = 0;
};

/// Whether Ctrl-C was pressed.
bool interrupted(FirstError& error) {
  const nb::gil_scoped_acquire python;
  if (PyErr_CheckSignals() == 0) return false;
  error.keep(std::make_exception_ptr(nb::python_error()));
  return true;
}

/// False if it threw, which it does at Ctrl-C, too.
bool told(const nb::object& done, const CompletedStep& step, FirstError& error) {
  const nb::gil_scoped_acquire python;
  try {
    done(step.step, step.samples, step.metrics);
    return true;
  } catch (...) {
    error.keep(std::current_exception());
    return false;
  }
}

}  // namespace

void make_epoch(PythonSession& session, int64_t steps, const nb::object& next, float learning_rate,
                int64_t epoch, const nb::object& done) {
  if (!session.has_servers())
    throw user_error("the strategy {} has no servers; its steps are made by train()",
                     session.program().strategy);
  if (steps < 1) throw user_error("an epoch has {} steps; it must have at least 1", steps);
  TrainerOptions options;
  options.schedule.base = learning_rate;
  options.loader_threads = 0;
  options.prefetch = 0;
  FirstError error;
  const nb::gil_scoped_release others_may_run;
  Feed feed(Next(session, next, error));
  const auto batches = [&](int64_t parts) {
    return std::make_unique<FedBatches>(feed, session.inputs(), parts);
  };
  bool ends = false;
  bool drained = false;
  try {
    ThreadCluster workers(session.program(), session.cluster(), batches, steps, options,
                          {.workers = session.workers(), .seed = session.seed()});
    workers.start(session.session(), {.updates = session.updates()});
    workers.begin({{.epoch = epoch, .epochs = epoch + 1, .steps = steps}, 0, steps, 0, {}});
    for (bool more = true; more;) {
      more = !workers.finished();
      for (const CompletedStep& step : workers.wait()) {
        feed.forget(step.step);
        ends = !told(done, step, error) || ends;
      }
      ends = ends || interrupted(error);
      if (ends && !drained) workers.drain();
      drained = ends;
    }
    session.set_updates(workers.fetch(session.session()).value_or(0));
  } catch (const Error&) {
    if (const std::exception_ptr first = error.take()) std::rethrow_exception(first);
    throw;
  }
  if (const std::exception_ptr first = error.take()) std::rethrow_exception(first);
}

}  // namespace telar::python
