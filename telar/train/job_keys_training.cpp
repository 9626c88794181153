#include "telar/train/job_keys.h"

namespace telar {

namespace {

const std::string kOptimizerName = "optimizer.name";
const std::string kSchedule = "schedule.name";

std::vector<JobKey> optimizer_keys() {
  return {
      job_key(
          kOptimizerName, [](auto& job) -> auto& { return job.optimizer.name; },
          {.choices = {"sgd", "adam", "adamw", "rmsprop", "adagrad"}}, "`optimizer: sgd` is short for it."),
      job_key(
          "optimizer.learning_rate", [](auto& job) -> auto& { return job.optimizer.learning_rate; },
          {.least = 0, .most = 1e6}, "0: 0.001 for adam and adamw, 0.01 for the others."),
      when(
          kOptimizerName, {"sgd", "rmsprop"},
          job_key(
              "optimizer.momentum", [](auto& job) -> auto& { return job.optimizer.momentum; },
              {.least = 0, .most = 1, .below_most = true}, "The part of the last step that is taken again.")),
      when(kOptimizerName, {"sgd"},
           job_key(
               "optimizer.nesterov", [](auto& job) -> auto& { return job.optimizer.nesterov; }, {},
               "Nesterov's form of momentum.")),
      job_key(
          "optimizer.weight_decay", [](auto& job) -> auto& { return job.optimizer.weight_decay; },
          {.least = 0, .most = 1e6},
          "Added to the gradient times the weight; adamw: taken from the weight itself."),
      when(kOptimizerName, {"adam", "adamw"},
           job_key(
               "optimizer.beta1", [](auto& job) -> auto& { return job.optimizer.beta1; },
               {.least = 0, .most = 1, .below_most = true}, "Decay of the mean gradient.")),
      when(kOptimizerName, {"adam", "adamw"},
           job_key(
               "optimizer.beta2", [](auto& job) -> auto& { return job.optimizer.beta2; },
               {.least = 0, .most = 1, .below_most = true}, "Decay of the mean squared gradient.")),
      when(kOptimizerName, {"rmsprop"},
           job_key(
               "optimizer.alpha", [](auto& job) -> auto& { return job.optimizer.alpha; },
               {.least = 0, .most = 1, .below_most = true}, "Decay of the mean squared gradient.")),
      when(kOptimizerName, {"adagrad"},
           job_key(
               "optimizer.lr_decay", [](auto& job) -> auto& { return job.optimizer.lr_decay; },
               {.least = 0, .most = 1e6},
               "The learning rate of step t is divided by 1 + (t - 1) times this.")),
      when(kOptimizerName, {"adam", "adamw", "rmsprop", "adagrad"},
           job_key(
               "optimizer.epsilon", [](auto& job) -> auto& { return job.optimizer.epsilon; },
               {.least = 0, .most = 1},
               "Keeps the division by a small root finite. 0: 1e-10 for adagrad, 1e-08 for the others.")),
  };
}

std::vector<JobKey> schedule_keys() {
  return {
      job_key(
          kSchedule, [](auto& job) -> auto& { return job.schedule.name; },
          {.choices = {"constant", "step", "cosine"}},
          "How the learning rate changes. `schedule: cosine` is short for it."),
      job_key(
          "schedule.warmup_epochs", [](auto& job) -> auto& { return job.schedule.warmup_epochs; },
          {.least = 0, .most = 1e6}, "The rate rises for so long; may be a part of an epoch."),
      job_key(
          "schedule.warmup_rate", [](auto& job) -> auto& { return job.schedule.warmup_rate; },
          {.least = 0, .most = 1e6},
          "From this rate; 0 with `schedule.scale`: from the rate before it is scaled."),
      job_key(
          "schedule.scale", [](auto& job) -> auto& { return job.schedule.scale; },
          {.choices = {"none", "linear", "sqrt"}},
          "With n workers the learning rate is multiplied by n, or by its square root; for "
          "`training.batch_per: "
          "worker`."),
      when(kSchedule, {"step"},
           job_key(
               "schedule.milestones", [](auto& job) -> auto& { return job.schedule.milestones; },
               {.least = 0, .most = 1e6}, "Epochs after which the rate is multiplied by gamma.")),
      when(kSchedule, {"step"},
           job_key(
               "schedule.every_epochs", [](auto& job) -> auto& { return job.schedule.every_epochs; },
               {.least = 0, .most = 1e6}, "And once every so many epochs. 0: never.")),
      when(kSchedule, {"step"},
           job_key(
               "schedule.gamma", [](auto& job) -> auto& { return job.schedule.gamma; },
               {.least = 0, .most = 10, .above_least = true}, "The factor of each step.")),
      when(kSchedule, {"cosine"},
           job_key(
               "schedule.minimum", [](auto& job) -> auto& { return job.schedule.minimum; },
               {.least = 0, .most = 1e6}, "The rate at the end of the training.")),
  };
}

std::vector<JobKey> loop_keys() {
  return {
      job_key(
          "training.epochs", [](auto& job) -> auto& { return job.training.epochs; },
          {.least = 1, .most = 1e9}, "How often the training goes over all samples."),
      job_key(
          "training.batch", [](auto& job) -> auto& { return job.training.batch; },
          {.least = 1, .most = 1 << 24},
          "Samples of one step; of each worker's part of it, if `batch_per` says so."),
      job_key(
          "training.batch_per", [](auto& job) -> auto& { return job.training.batch_per; },
          {.choices = {"step", "worker"}},
          "step: the batch is shared by all workers. worker: each has so many samples, and n workers n times "
          "as "
          "many."),
      without_result(job_key(
          "training.evaluation_batch", [](auto& job) -> auto& { return job.training.evaluation_batch; },
          {.least = 1, .most = 1 << 24}, "Samples at a time in validation and test.")),
      job_key(
          "training.precision", [](auto& job) -> auto& { return job.training.precision; },
          {.choices = {"f32", "tf32", "bf16"}},
          "bf16 computes in bfloat16 and keeps the weights in f32. tf32, of GPUs alone: the factors of "
          "products and convolutions are rounded to 10 bits of mantissa."),
      job_key(
          "training.convolution", [](auto& job) -> auto& { return job.training.convolution; },
          {.choices = {"direct", "winograd"}},
          "winograd computes 3×3 convolutions at stride 1 in f32 with a quarter of the multiplications, "
          "where that is faster. "
          "Sums are rounded at other places: by 1e-6, and strategies agree with each other less closely."),
      job_key(
          "training.seed", [](auto& job) -> auto& { return job.training.seed; }, {.least = 0, .most = 9e15},
          "Of the first weights, the order of the samples, dropout and augmentation."),
      job_key(
          "training.clip_norm", [](auto& job) -> auto& { return job.training.clip_norm; },
          {.least = 0, .most = 1e30}, "The gradient's norm is brought down to this. 0: off."),
      job_key(
          "training.label_smoothing", [](auto& job) -> auto& { return job.training.label_smoothing; },
          {.least = 0, .most = 1, .below_most = true},
          "The part of the target that is spread over all classes."),
      job_key(
          "training.top_k", [](auto& job) -> auto& { return job.training.top_k; }, {.least = 1, .most = 1e6},
          "Which accuracies are counted: 1 is `accuracy`, 5 is `top5`."),
      job_key(
          "training.early_stopping.metric",
          [](auto& job) -> auto& { return job.training.early_stopping_metric; },
          {.choices = {"loss", "accuracy"}},
          "Of the validation samples: what decides which epoch was the best, and when to stop."),
      job_key(
          "training.early_stopping.patience",
          [](auto& job) -> auto& { return job.training.early_stopping_patience; }, {.least = 0, .most = 1e9},
          "Stop after so many epochs without a better value. 0: never."),
  };
}

}  // namespace

std::vector<JobKey> training_keys() {
  std::vector<JobKey> keys = {
      job_key(
          "loss", [](auto& job) -> auto& { return job.loss; },
          {.choices = {"auto", "cross_entropy", "mean_squared_error"}},
          "auto: cross-entropy for classes, the squared error for regression."),
  };
  for (const auto& part : {optimizer_keys(), schedule_keys(), loop_keys()})
    keys.insert(keys.end(), part.begin(), part.end());
  return keys;
}

}  // namespace telar
