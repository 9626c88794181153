#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/data/batch_source.h"
#include "telar/runtime/session.h"
#include "telar/train/job.h"
#include "telar/train/trainer.h"

namespace telar {

/// A trained model, ready for evaluation and prediction.
struct Trained {
  std::filesystem::path checkpoint;
  int64_t step = 0;                  ///< that has made its parameters
  std::vector<std::string> skipped;  ///< why newer checkpoints were not used, one sentence each
  Job job;                           ///< as run, with the overrides applied
  SampleSpec spec;
  std::unique_ptr<Session> session;

  Figures figures() const;  ///< of samples
};

/// Loads the newest intact (or with `best` the best) checkpoint of a run folder, or a checkpoint. Verifies
/// every byte; `warn` is called for each newer checkpoint that is damaged. The model runs on the devices that
/// it was trained on. If one of them is missing and the overrides name no others, it runs on the CPU, and
/// `warn` is called. A model trained in tf32, which CPUs do not support, then runs in f32. Throws Error
/// (user).
Trained load_trained(const std::filesystem::path& run_or_checkpoint, bool best,
                     const std::vector<std::string>& overrides = {},
                     const std::function<void(const std::string&)>& warn = {});

/// The figures of `data`. Throws Error (user) if its samples do not match the model's.
std::vector<double> evaluate(const Trained& trained, const Dataset& data);

/// The samples with the model's classes of the same names. Throws Error (user) for names that the model does
/// not have. If it has none, classes count by position, and `warn` is called.
DatasetPtr with_classes_of(const Trained& trained, DatasetPtr data,
                           const std::function<void(const std::string&)>& warn);

/// Throws Error (user) if samples of this kind are not those of the model.
void require_fit(const Trained& trained, const SampleSpec& given);

/// The model's outputs, [samples, outputs], row-major: probabilities of classes, or of labels that
/// are 0 or 1 each, or the numbers of other models.
std::vector<float> predict(const Trained& trained, const Dataset& data);
std::vector<float> predict(const Trained& trained, const Batch& batch);

/// Opens samples to predict from a file: a picture (resized to the model's size), IDX images, a
/// .npy array or a CSV table of features. The content determines the format. They are normalised as in
/// training. Columns are found by their names in training. `note` receives sentences on how the file was
/// understood. Throws Error (user) if the samples do not fit the model.
/// `keep` receives the cells of a table's columns that are no features (`data.drop`), by name.
DatasetPtr open_inputs(
    const Trained& trained, const std::string& path, const std::function<void(const std::string&)>& note = {},
    const std::function<void(const std::pair<std::string, std::vector<std::string>>&)>& keep = {});

}  // namespace telar
