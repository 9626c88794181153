#include "python/native/run.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "python/native/bindings.h"
#include "telar/core/error.h"

namespace telar::python {

namespace nb = nanobind;

namespace {

constexpr int64_t kKept = 2;  // checkpoints, beside the best

void warn(const std::string& sentence) { PyErr_WarnEx(PyExc_UserWarning, sentence.c_str(), 1); }

RunFolder folder_of(const std::string& path, bool resume) {
  Job job;
  job.output.folder = path;
  if (resume) return RunFolder::resume(job);
  if (std::filesystem::exists(std::filesystem::path(path) / "checkpoints"))
    throw user_error("{} already contains a run; continue it with resume=True, or choose another folder",
                     path);
  return RunFolder::create(job);
}

}  // namespace

PythonRun::PythonRun(const std::string& folder, bool resume, int64_t patience)
    : early_stopping_{.patience = patience} {
  if (folder.empty()) return;
  folder_.emplace(folder_of(folder, resume));
  if (resume) found_ = newest_checkpoint(folder_->checkpoints());
  if (found_) {
    for (const std::string& warning : found_->warnings) warn(warning);
    state_ = found_->state;
    notes_ = read_checkpoint_text(found_->path / kNotes);
    set_aside_checkpoints_after(folder_->checkpoints(), state_.step);
  }
  discard_metrics_after(folder_->metrics(), state_.step);
  EventFiles events{.by_steps = std::make_unique<TensorBoardWriter>(folder_->path())};
  if (resume) events.by_steps->add_resume(state_.step);
  log_ = std::make_unique<LogObserver>(MetricsLog(folder_->metrics()), std::move(events),
                                       Figures(std::vector<std::string>{kLoss}), 1, warn);
}

void PythonRun::load(PythonSession& session) const {
  if (found_) load_all(found_->path, session.session());
}

void PythonRun::load_best(PythonSession& session) const {
  if (folder_ && state_.best)
    load_parameters(checkpoint_path(folder_->checkpoints(), state_.best_step), session.session());
  if (!state_.best && state_.epoch > 0)
    warn(
        "no epoch had a finite validation loss, so the module has the values of the last one, not of the best");
}

void PythonRun::step_done(int64_t samples, double loss, double learning_rate, double seconds) {
  const std::vector<double> sums{loss * static_cast<double>(samples)};
  ++state_.step;
  ++state_.step_in_epoch;
  state_.samples += samples;
  state_.epoch_samples += samples;
  state_.epoch_sums.resize(1);
  state_.epoch_sums[0] += sums[0];
  state_.seconds += seconds;
  if (log_)
    log_->step_done({.samples = samples, .sums = sums, .learning_rate = learning_rate, .seconds = seconds},
                    state_);
}

bool PythonRun::epoch_done(std::optional<double> validation_loss) {
  EpochReport report{.epoch = state_.epoch};
  for (const double sum : state_.epoch_sums)
    report.train.push_back(sum / static_cast<double>(state_.epoch_samples));
  ++state_.epoch;
  if (validation_loss) {
    report.validation = {*validation_loss};
    report.best = judge_epoch(*validation_loss, early_stopping_, state_);
    const std::string warning = not_finite_warning(kLoss, *validation_loss, report.epoch);
    if (!log_ && !warning.empty()) warn(warning);  // the log warns, too
  }
  state_.step_in_epoch = 0;
  state_.epoch_samples = 0;
  state_.epoch_sums.clear();
  if (log_) log_->epoch_done(report, state_);
  return state_.stopped_early;
}

void PythonRun::save(const PythonSession& session, const std::string& notes) {
  if (!folder_) return;
  CheckpointObserver(
      {.folder = folder_->checkpoints(), .files = {{kNotes, notes}}, .before = [&] { log_->sync(); }},
      session.session(), {.keep = kKept})
      .save(state_);
}

void bind_run(nb::module_& module) {
  nb::class_<PythonRun>(module, "Run", "How far a training has come, and its folder if it has one.")
      .def(nb::init<const std::string&, bool, int64_t>(), nb::arg("folder"), nb::arg("resume"),
           nb::arg("patience"))
      .def_prop_ro(
          "notes",
          [](const PythonRun& run) -> std::optional<nb::bytes> {
            if (!run.notes()) return std::nullopt;
            return nb::bytes(run.notes()->data(), run.notes()->size());
          },
          "What was kept with the checkpoint from which the run continues; None if it begins.")
      .def("load", &PythonRun::load, nb::arg("session"), "Loads that checkpoint.")
      .def("load_best", &PythonRun::load_best, nb::arg("session"), "Loads the parameters of the best epoch.")
      .def("step_done", &PythonRun::step_done, nb::arg("samples"), nb::arg("loss"), nb::arg("learning_rate"),
           nb::arg("seconds"))
      .def("epoch_done", &PythonRun::epoch_done, nb::arg("validation_loss").none(),
           "Whether the training has not improved for so long that it ends.")
      .def(
          "save",
          [](PythonRun& run, const PythonSession& session, const nb::bytes& notes) {
            run.save(session, std::string(notes.c_str(), notes.size()));
          },
          nb::arg("session"), nb::arg("notes"), "Writes a checkpoint.")
      .def_prop_ro(
          "epoch", [](const PythonRun& run) { return run.state().epoch; }, "Completed epochs.")
      .def_prop_ro(
          "step", [](const PythonRun& run) { return run.state().step; }, "Completed steps.")
      .def_prop_ro("step_in_epoch", [](const PythonRun& run) { return run.state().step_in_epoch; })
      .def_prop_ro("samples_in_epoch", [](const PythonRun& run) { return run.state().epoch_samples; })
      .def_prop_ro(
          "loss_in_epoch",
          [](const PythonRun& run) {
            const TrainingState& state = run.state();
            return state.epoch_sums.empty() ? 0.0 : state.epoch_sums[0];
          },
          "The sum over the samples of the epoch.")
      .def_prop_ro("stopped_early", [](const PythonRun& run) { return run.state().stopped_early; });
}

}  // namespace telar::python
