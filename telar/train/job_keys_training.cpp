#include "telar/data/source.h"
#include "telar/nn/metrics.h"
#include "telar/train/job_keys.h"

namespace telar {

namespace {

const std::string kLossName = "loss.name";
const std::string kOptimizerName = "optimizer.name";
const std::string kSchedule = "schedule.name";

JobKey of_streams(JobKey key) {
  return when("data.source", source_names([](const SourceType& type) { return type.open_stream != nullptr; }),
              std::move(key));
}

std::vector<JobKey> loss_keys() {
  return {
      job_key(
          kLossName, [](auto& job) -> auto& { return job.loss.name; },
          {.choices = {"auto", "cross_entropy", "focal", "mean_squared_error", "l1", "huber",
                       "binary_cross_entropy"}},
          "The loss. auto: cross_entropy for classes, mean_squared_error for numbers. focal: (1 − p)^gamma times the cross-entropy, where p is the label's probability. l1: the absolute error. huber: half the squared error, and beyond delta the absolute error. binary_cross_entropy, and focal of numbers: each number of the label is 0 or 1 for itself (one label, or several). Short form: `loss: huber`."),
      when(
          kLossName, {"huber"},
          job_key(
              "loss.delta", [](auto& job) -> auto& { return job.loss.delta; },
              {.least = 0, .most = 1e30, .above_least = true},
              "Error up to which the loss is half the squared error; beyond, it is delta (error − delta / 2).")),
      when(kLossName, {"focal"},
           job_key(
               "loss.gamma", [](auto& job) -> auto& { return job.loss.gamma; }, {.least = 1, .most = 100},
               "How much less the samples count that the model already classifies well.")),
      when(
          kLossName, {"auto", "cross_entropy", "focal"},
          job_key(
              "loss.class_weights", [](auto& job) -> auto& { return job.loss.class_weights; },
              {.least = 0, .most = 1e9},
              "Factor of the loss of each class's samples, one for each class. The mean is taken over the number of samples, not over their weights. Empty: all are 1.")),
      when(
          kLossName, {"auto", "cross_entropy", "focal"},
          job_key(
              "loss.balanced", [](auto& job) -> auto& { return job.loss.balanced; }, {},
              "Sets `loss.class_weights` to n / (C n_c), of n training samples in C classes with n_c samples each, so every class counts the same. The run records the weights.")),
  };
}

std::vector<JobKey> optimizer_keys() {
  return {
      fixed("the checkpoint contains the state of that optimizer",
            job_key(
                kOptimizerName, [](auto& job) -> auto& { return job.optimizer.name; },
                {.choices = {"sgd", "adam", "adamw", "rmsprop", "adagrad"}},
                "The optimizer. Short form: `optimizer: sgd`.")),
      by_default(
          "0.001 for adam and adamw, otherwise 0.01",
          job_key(
              "optimizer.learning_rate", [](auto& job) -> auto& { return job.optimizer.learning_rate; },
              {.least = 0, .most = 1e6, .above_least = true}, "The learning rate.")),
      when(kOptimizerName, {"sgd", "rmsprop"},
           job_key(
               "optimizer.momentum", [](auto& job) -> auto& { return job.optimizer.momentum; },
               {.least = 0, .most = 1, .below_most = true},
               "Fraction of the previous step that is added to the current one.")),
      when(kOptimizerName, {"sgd"},
           job_key(
               "optimizer.nesterov", [](auto& job) -> auto& { return job.optimizer.nesterov; }, {},
               "Uses Nesterov momentum.")),
      job_key(
          "optimizer.weight_decay", [](auto& job) -> auto& { return job.optimizer.weight_decay; },
          {.least = 0, .most = 1e6},
          "Adds this value times the weight to the gradient. adamw: decays the weight directly."),
      when(kOptimizerName, {"adam", "adamw"},
           job_key(
               "optimizer.beta1", [](auto& job) -> auto& { return job.optimizer.beta1; },
               {.least = 0, .most = 1, .below_most = true}, "Decay rate of the mean gradient.")),
      when(kOptimizerName, {"adam", "adamw"},
           job_key(
               "optimizer.beta2", [](auto& job) -> auto& { return job.optimizer.beta2; },
               {.least = 0, .most = 1, .below_most = true}, "Decay rate of the mean squared gradient.")),
      when(kOptimizerName, {"rmsprop"},
           job_key(
               "optimizer.alpha", [](auto& job) -> auto& { return job.optimizer.alpha; },
               {.least = 0, .most = 1, .below_most = true}, "Decay rate of the mean squared gradient.")),
      when(kOptimizerName, {"adagrad"},
           job_key(
               "optimizer.lr_decay", [](auto& job) -> auto& { return job.optimizer.lr_decay; },
               {.least = 0, .most = 1e6},
               "Divides the learning rate of step t by 1 + (t - 1) times this value.")),
      when(kOptimizerName, {"adam", "adamw", "rmsprop", "adagrad"},
           by_default("1e-10 for adagrad, otherwise 1e-08",
                      job_key(
                          "optimizer.epsilon", [](auto& job) -> auto& { return job.optimizer.epsilon; },
                          {.least = 0, .most = 1, .above_least = true},
                          "Keeps the division by a small root finite."))),
      job_key(
          "optimizer.factors", [](auto& job) -> auto& { return job.optimizer.factors; }, {},
          "Factors of the learning rate of some layers or parameters, each as PATTERN: FACTOR with the patterns of `model.freeze`; of several that match, the last one counts. `factors: [\"layer*: 0.1\"]`."),
  };
}

std::vector<JobKey> schedule_keys() {
  return {
      job_key(
          kSchedule, [](auto& job) -> auto& { return job.schedule.name; },
          {.choices = {"constant", "step", "exponential", "inverse_time", "cosine", "plateau"}},
          "How the learning rate changes during training; plateau: whenever the validation no longer improves. Short form: `schedule: cosine`."),
      job_key(
          "schedule.warmup_epochs", [](auto& job) -> auto& { return job.schedule.warmup_epochs; },
          {.least = 0, .most = 1e6},
          "Length of the warm-up, during which the learning rate rises. May be a fraction of an epoch."),
      by_default("`0`; with `schedule.scale` the learning rate before scaling",
                 job_key(
                     "schedule.warmup_rate", [](auto& job) -> auto& { return job.schedule.warmup_rate; },
                     {.least = 0, .most = 1e6}, "Learning rate at the start of the warm-up.")),
      job_key(
          "schedule.scale", [](auto& job) -> auto& { return job.schedule.scale; },
          {.choices = {"none", "linear", "sqrt"}},
          "Multiplies the learning rate by the number of workers (linear) or by its square root (sqrt). Requires `training.batch_per: worker`."),
      when(kSchedule, {"step"},
           job_key(
               "schedule.milestones", [](auto& job) -> auto& { return job.schedule.milestones; },
               {.least = 0, .most = 1e6}, "Epochs after which the learning rate is multiplied by gamma.")),
      when(kSchedule, {"step"},
           job_key(
               "schedule.every_epochs", [](auto& job) -> auto& { return job.schedule.every_epochs; },
               {.least = 0, .most = 1e6},
               "Also multiplies the learning rate by gamma every N epochs. 0: never.")),
      when(
          kSchedule, {"step", "exponential", "plateau"},
          job_key(
              "schedule.gamma", [](auto& job) -> auto& { return job.schedule.gamma; },
              {.least = 0, .most = 10, .above_least = true},
              "step and plateau: factor by which each step multiplies the learning rate; plateau: below 1. exponential: the factor of an epoch, in equal parts for its steps.")),
      when(
          kSchedule, {"inverse_time"},
          job_key(
              "schedule.decay", [](auto& job) -> auto& { return job.schedule.decay; },
              {.least = 0, .most = 1e6},
              "Divides the learning rate by 1 + this value times the number of epochs so far, with parts of an epoch.")),
      when(
          kSchedule, {"cosine", "plateau"},
          job_key(
              "schedule.minimum", [](auto& job) -> auto& { return job.schedule.minimum; },
              {.least = 0, .most = 1e6},
              "cosine: learning rate at the end of training. plateau: the rate below which it does not fall.")),
      when(
          kSchedule, {"plateau"},
          job_key(
              "schedule.patience", [](auto& job) -> auto& { return job.schedule.patience; },
              {.least = 1, .most = 1e9},
              "Epochs without a better `training.early_stopping.metric` of the validation after which the learning rate is multiplied by gamma, and after as many again; those of the warm-up do not count.")),
  };
}

std::vector<JobKey> loop_keys() {
  return {
      job_key(
          "training.epochs", [](auto& job) -> auto& { return job.training.epochs; },
          {.least = 1, .most = 1e9}, "Number of passes over all training samples."),
      of_streams(job_key(
          "training.epoch_steps", [](auto& job) -> auto& { return job.training.epoch_steps; },
          {.least = 0, .most = 1e12},
          "Steps of an epoch, if `data.end` is never: after each epoch there are a line in the log and a checkpoint.")),
      job_key(
          "training.batch", [](auto& job) -> auto& { return job.training.batch; },
          {.least = 1, .most = 1 << 24},
          "Samples per step, or samples per worker and step, depending on `batch_per`."),
      job_key(
          "training.batch_per", [](auto& job) -> auto& { return job.training.batch_per; },
          {.choices = {"step", "worker"}},
          "step: the workers divide the batch among them. worker: each worker has a batch of this size, so n workers train on n times as many samples per step."),
      without_result(job_key(
          "training.evaluation_batch", [](auto& job) -> auto& { return job.training.evaluation_batch; },
          {.least = 1, .most = 1 << 24}, "Samples per batch in validation and test.")),
      job_key(
          "training.precision", [](auto& job) -> auto& { return job.training.precision; },
          {.choices = {"f32", "tf32", "bf16"}},
          "bf16: computes in bfloat16 and keeps the weights in f32. tf32, on GPUs only: rounds the factors of matrix products and convolutions to 10 bits of mantissa."),
      job_key(
          "training.convolution", [](auto& job) -> auto& { return job.training.convolution; },
          {.choices = {"direct", "winograd"}},
          "winograd: computes 3×3 convolutions at stride 1 in f32 with a quarter of the multiplications, where that is faster. Rounding differs by about 1e-6, so strategies agree with each other less closely."),
      fixed(
          "the seed also selects the validation samples, and the model would be judged on samples that it has been trained on",
          job_key(
              "training.seed", [](auto& job) -> auto& { return job.training.seed; },
              {.least = 0, .most = 9e15},
              "Seed of the initial weights, the order of the samples, dropout and augmentation.")),
      job_key(
          "training.clip_norm", [](auto& job) -> auto& { return job.training.clip_norm; },
          {.least = 0, .most = 1e30},
          "Maximum norm of the gradient; a larger gradient is scaled down to it. 0: off."),
      job_key(
          "training.label_smoothing", [](auto& job) -> auto& { return job.training.label_smoothing; },
          {.least = 0, .most = 1, .below_most = true},
          "Fraction of the target that is spread over all classes; with the loss cross_entropy."),
      fixed("the checkpoint and the log have values for these metrics",
            job_key(
                "training.top_k", [](auto& job) -> auto& { return job.training.top_k; },
                {.least = 1, .most = 1e6}, "Accuracies to compute: 1 is `accuracy`, 5 is `top5`.")),
      fixed("the checkpoint and the log have values for these metrics",
            job_key(
                "training.metrics", [](auto& job) -> auto& { return job.training.metrics; },
                {.choices = further_metrics()}, "Further metrics; see below.")),
      fixed(
          "the best epoch so far was chosen by it",
          job_key(
              "training.early_stopping.metric",
              [](auto& job) -> auto& { return job.training.early_stopping_metric; },
              {.choices = {"loss", "accuracy", "precision_macro", "precision_micro", "recall_macro",
                           "recall_micro", "f1_macro", "f1_micro", "auc", "perplexity", "mae", "rmse", "r2"}},
              "Validation metric that determines the best epoch and when to stop: loss, accuracy, or one of `training.metrics`.")),
      job_key(
          "training.early_stopping.patience",
          [](auto& job) -> auto& { return job.training.early_stopping_patience; }, {.least = 0, .most = 1e9},
          "Stops after N epochs without improvement. 0: never."),
  };
}

const std::string kDetector = "training.drift.detector";
const std::string kDriftAction = "training.drift.action";

std::vector<JobKey> prequential_keys() {
  return {
      of_streams(job_key(
          "training.prequential.pass", [](auto& job) -> auto& { return job.training.prequential.pass; },
          {.choices = {"training", "evaluation"}},
          "How a batch is tested before it is trained on. training: by the forward pass of its step, at no cost; with dropout and the batch's own statistics, if the model has them. evaluation: by a pass of its own, as samples are tested after the training; not with parameter servers.")),
      of_streams(job_key(
          "training.prequential.window", [](auto& job) -> auto& { return job.training.prequential.window; },
          {.least = 1, .most = 1e12},
          "Samples of the windowed means of loss and accuracy: `window_loss`, `window_accuracy`.")),
      of_streams(job_key(
          "training.prequential.fading", [](auto& job) -> auto& { return job.training.prequential.fading; },
          {.least = 0, .most = 1, .below_most = true},
          "Weight of a sample beside the next one in the fading means: `fading_loss`, `fading_accuracy`.")),
  };
}

std::vector<JobKey> drift_keys() {
  const std::vector<std::string> detectors = {"none", "adwin", "page_hinkley"};
  return {
      of_streams(job_key(
          kDetector, [](auto& job) -> auto& { return job.training.drift.detector; }, {.choices = detectors},
          "Detects that the stream has changed by a rise of the error of its samples. adwin: Bifet and Gavaldà 2007. page_hinkley: the test of Page and Hinkley.")),
      unless(
          kDetector, detectors, {"none"},
          fixed(
              "the detector in the checkpoint has seen its values",
              job_key(
                  "training.drift.signal", [](auto& job) -> auto& { return job.training.drift.signal; },
                  {.choices = {"auto", "error", "loss"}},
                  "What is watched. error: of each sample, 0 or 1. loss: the mean of each step. auto: the error if there are classes, otherwise the loss."))),
      when(kDetector, {"adwin"},
           job_key(
               "training.drift.delta", [](auto& job) -> auto& { return job.training.drift.delta; },
               {.least = 0, .most = 1, .above_least = true, .below_most = true},
               "Probability of a drift that is none, about. A smaller one detects later.")),
      when(kDetector, {"page_hinkley"},
           job_key(
               "training.drift.threshold", [](auto& job) -> auto& { return job.training.drift.threshold; },
               {.least = 0, .most = 1e9, .above_least = true},
               "How much the values must exceed their mean in sum. A larger one detects later.")),
      when(kDetector, {"page_hinkley"},
           job_key(
               "training.drift.tolerance", [](auto& job) -> auto& { return job.training.drift.tolerance; },
               {.least = 0, .most = 1e9}, "By how much a value may exceed the mean before it counts.")),
      when(kDetector, {"page_hinkley"},
           job_key(
               "training.drift.values", [](auto& job) -> auto& { return job.training.drift.values; },
               {.least = 1, .most = 1e9},
               "Values, since the start or the last drift, before there is a drift.")),
      unless(
          kDetector, detectors, {"none"},
          job_key(
              kDriftAction, [](auto& job) -> auto& { return job.training.drift.action; },
              {.choices = {"log", "raise_rate"}},
              "What follows a drift. log: a line in the log. raise_rate: also a higher learning rate for some steps; not with parameter servers.")),
      when(
          kDriftAction, {"raise_rate"},
          job_key(
              "training.drift.factor", [](auto& job) -> auto& { return job.training.drift.factor; },
              {.least = 0, .most = 1e6, .above_least = true}, "Multiplies the learning rate after a drift.")),
      when(kDriftAction, {"raise_rate"},
           job_key(
               "training.drift.steps", [](auto& job) -> auto& { return job.training.drift.steps; },
               {.least = 1, .most = 1e12}, "Steps with that learning rate.")),
  };
}

}  // namespace

std::vector<JobKey> training_keys() {
  std::vector<JobKey> keys;
  for (const auto& part :
       {loss_keys(), optimizer_keys(), schedule_keys(), loop_keys(), prequential_keys(), drift_keys()})
    keys.insert(keys.end(), part.begin(), part.end());
  return keys;
}

}  // namespace telar
