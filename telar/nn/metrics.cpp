#include "telar/nn/metrics.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/gather.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/ops/math.h"
#include "telar/graph/ops/order.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/softmax.h"
#include "telar/graph/ops/whole_numbers.h"
#include "telar/graph/training_step.h"
#include "telar/nn/training_step.h"

namespace telar {

namespace {

const double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kMostSums = 1 << 17;  // as many numbers pass between workers at each step

enum class Labels : uint8_t { classes, probabilities, numbers };

Labels labels_of(Loss loss) {
  return takes_classes(loss)         ? Labels::classes
         : takes_probabilities(loss) ? Labels::probabilities
                                     : Labels::numbers;
}

/// For the area under a curve, samples are counted by intervals of the logit of their probability, of each
/// class or label that has a curve, apart those that belong to it.
struct Intervals {
  int64_t curves = 1;
  int64_t count = 0;  ///< as many as fit, whose width grows with the distance from 0

  explicit Intervals(const StepOptions& options, int64_t outputs)
      : curves(takes_classes(options.loss) && outputs == 2 ? 1 : outputs),
        count(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kMostRanks / (2 * curves))))) {}
  int64_t sums() const { return 2 * count * curves; }

  static constexpr int64_t kMostRanks = 1 << 16;
  static constexpr double kLinear = 64;  // logits below 1 / 64 are in intervals of about equal width
  static constexpr double kLargest = 9;  // log(1 + 64 · 127), beyond which f32 probabilities are 0 or 1
};

constexpr int64_t kMostCurves = 32;

/// What follows for each class from its counts.
using Ratio = double (*)(double right, double predicted, double actual);
double precision_of(double right, double predicted, double /*actual*/) {
  return predicted > 0 ? right / predicted : 0;
}
double recall_of(double right, double /*predicted*/, double actual) {
  return actual > 0 ? right / actual : 0;
}
double f1_of(double right, double predicted, double actual) {
  return predicted + actual > 0 ? 2 * right / (predicted + actual) : 0;
}

/// Several sums in one buffer: the operations that compute them, and how many they are.
struct SumsType {
  std::string name;
  int64_t (*count)(const StepOptions& options, int64_t outputs);
  ValueId (*build)(GraphBuilder& graph, const StepOptions& options, ValueId prediction, ValueId label);
  bool of_samples = false;  ///< what follows is a mean over the samples, not a ratio of sums
};

struct MetricType {
  std::string name;
  std::string sums;
  std::vector<Labels> labels;
  bool lower_is_better = false;
  Ratio ratio = nullptr;
};

const std::vector<MetricType>& metric_types() {
  using enum Labels;
  static const std::vector<MetricType> types = {
      {"precision", "class_counts", {classes, probabilities}, false, precision_of},
      {"recall", "class_counts", {classes, probabilities}, false, recall_of},
      {"f1", "class_counts", {classes, probabilities}, false, f1_of},
      {"confusion_matrix", "confusion_counts", {classes}},
      {"auc", "rank_counts", {classes, probabilities}},
      {"perplexity", "log_loss", {classes}, true},
      {"mae", "absolute_error", {numbers}, true},
      {"rmse", "squared_error", {numbers}, true},
      {"r2", "target_sums", {numbers}}};
  return types;
}

const MetricType& metric_type(const std::string& name) {
  const auto found = std::ranges::find(metric_types(), name, &MetricType::name);
  if (found == metric_types().end())
    throw user_error("there is no metric '{}'; there are {}", name, one_of(further_metrics()));
  return *found;
}

ValueId ones_of(GraphBuilder& graph, ValueId batch_of, const Shape& item) {
  return fill(graph, 1, batch_of, item);
}

/// 1 where two whole numbers, below 2²⁴, are equal.
ValueId equal(GraphBuilder& graph, ValueId a, ValueId b) {
  return within(graph, add(graph, a, scale(graph, b, -1)), 0, 0);
}

/// [N]: the class with the largest logit, of equal ones the first.
ValueId predicted_class(GraphBuilder& graph, ValueId logits) {
  return reshape(graph, order(graph, logits, 1, 1, true), {-1});
}

/// [3 · C]: of each class the samples that are right, predicted and labelled so.
ValueId class_counts(GraphBuilder& graph, const StepOptions& options, ValueId prediction, ValueId label) {
  const int64_t outputs = graph.type(prediction).shape[1];
  if (takes_probabilities(options.loss)) {
    const ValueId predicted = within(graph, prediction, FLT_MIN, FLT_MAX);
    const ValueId actual = within(graph, label, 0.5, 1);
    std::vector<ValueId> counts;
    for (const ValueId each : {mul(graph, predicted, actual), predicted, actual})
      counts.push_back(reduce_sum(graph, each, {0}));
    return concat(graph, counts, 0);
  }
  const ValueId predicted = predicted_class(graph, prediction);
  const ValueId ones = ones_of(graph, prediction, {});
  const ValueId right = equal(graph, to_numbers(graph, predicted), to_numbers(graph, label));
  return concat(
      graph,
      {scatter_add(graph, label, right, 0, outputs), scatter_add(graph, predicted, ones, 0, outputs),
       scatter_add(graph, label, ones, 0, outputs)},
      0);
}

/// [C · C]
ValueId confusion_counts(GraphBuilder& graph, const StepOptions& /*options*/, ValueId prediction,
                         ValueId label) {
  const int64_t classes = graph.type(prediction).shape[1];
  const ValueId row = scale(graph, to_numbers(graph, label), static_cast<double>(classes));
  const ValueId place = add(graph, row, to_numbers(graph, predicted_class(graph, prediction)));
  return scatter_add(graph, to_indices(graph, place), ones_of(graph, prediction, {}), 0, classes * classes);
}

/// The logit of each class's probability, [N, C].
ValueId logits_of_each(GraphBuilder& graph, ValueId prediction) {
  const ValueId p = softmax(graph, prediction, 1);
  const ValueId rest = add(graph, scale(graph, p, -1), constant(graph, 1, {1}));
  const auto log_of = [&](ValueId x) { return log(graph, clamp(graph, x, FLT_MIN, 1)); };
  return add(graph, log_of(p), scale(graph, log_of(rest), -1));
}

/// The interval of each logit: floor(sign(x) · log(1 + 64 |x|) · count / 18) from the middle.
ValueId intervals_of(GraphBuilder& graph, ValueId x, int64_t count) {
  const double half = static_cast<double>(count) / 2;
  const ValueId size = distance(graph, x, scale(graph, x, 0));
  const ValueId sign = add(graph, scale(graph, within(graph, x, 0, FLT_MAX), 2), constant(graph, -1, {1}));
  const ValueId place = mul(graph, sign, log1p(graph, scale(graph, size, Intervals::kLinear)));
  const ValueId counted =
      add(graph, floor(graph, scale(graph, place, half / Intervals::kLargest)), constant(graph, half, {1}));
  return clamp(graph, counted, 0, static_cast<double>(count - 1));
}

/// [2 · intervals · curves]: first the samples of other classes, then a class's own.
ValueId rank_counts(GraphBuilder& graph, const StepOptions& options, ValueId prediction, ValueId label) {
  const int64_t outputs = graph.type(prediction).shape[1];
  const Intervals intervals(options, outputs);
  ValueId own = kNoValue;
  ValueId logits = prediction;
  if (takes_probabilities(options.loss)) {
    own = within(graph, label, 0.5, 1);
  } else if (outputs == 2) {
    const std::vector<ValueId> each = split(graph, prediction, 1, {1, 1});
    own = reshape(graph, to_numbers(graph, label), {-1, 1});
    logits = add(graph, each[1], scale(graph, each[0], -1));
  } else {
    own = scatter_add(graph, reshape(graph, label, {-1, 1}), ones_of(graph, prediction, {1}), 1, outputs);
    logits = logits_of_each(graph, prediction);
  }
  const ValueId place = add(graph, intervals_of(graph, logits, intervals.count),
                            scale(graph, own, static_cast<double>(intervals.count)));
  const ValueId counts = scatter_add(graph, to_indices(graph, place),
                                     ones_of(graph, prediction, {intervals.curves}), 0, 2 * intervals.count);
  return reshape(graph, counts, {intervals.sums()});
}

ValueId log_loss(GraphBuilder& graph, const StepOptions& /*options*/, ValueId prediction, ValueId label) {
  return cross_entropy(graph, prediction, label, 0);
}

ValueId absolute_error(GraphBuilder& graph, const StepOptions& /*options*/, ValueId prediction,
                       ValueId label) {
  return reduce_sum(graph, reduce_mean(graph, distance(graph, prediction, label), {1}), {});
}

ValueId squared_error(GraphBuilder& graph, const StepOptions& /*options*/, ValueId prediction,
                      ValueId label) {
  return mean_squared_error(graph, prediction, label);
}

/// [3 · k]: of each number of the labels Σ (x − y)², Σ (y − m) and Σ (y − m)², where m is near their mean.
ValueId target_sums(GraphBuilder& graph, const StepOptions& options, ValueId prediction, ValueId label) {
  const int64_t outputs = graph.type(prediction).shape[1];
  std::vector<ValueId> means;
  for (int64_t i = 0; i < outputs; ++i)
    means.push_back(
        constant(graph, options.target_mean.empty() ? 0 : -options.target_mean[static_cast<size_t>(i)], {1}));
  const ValueId shift = means.size() == 1 ? means[0] : concat(graph, means, 0);
  const ValueId error = add(graph, prediction, scale(graph, label, -1));
  const ValueId from_mean = add(graph, label, shift);
  std::vector<ValueId> sums;
  for (const ValueId each : {mul(graph, error, error), from_mean, mul(graph, from_mean, from_mean)})
    sums.push_back(reduce_sum(graph, each, {0}));
  return concat(graph, sums, 0);
}

const std::vector<SumsType>& sums_types() {
  static const std::vector<SumsType> types = {
      {"class_counts", [](const StepOptions&, int64_t outputs) { return 3 * outputs; }, class_counts},
      {"confusion_counts", [](const StepOptions&, int64_t outputs) { return outputs * outputs; },
       confusion_counts},
      {"rank_counts",
       [](const StepOptions& options, int64_t outputs) { return Intervals(options, outputs).sums(); },
       rank_counts},
      {"log_loss", [](const StepOptions&, int64_t) { return int64_t{1}; }, log_loss, true},
      {"absolute_error", [](const StepOptions&, int64_t) { return int64_t{1}; }, absolute_error},
      {"squared_error", [](const StepOptions&, int64_t) { return int64_t{1}; }, squared_error},
      {"target_sums", [](const StepOptions&, int64_t outputs) { return 3 * outputs; }, target_sums}};
  return types;
}

/// Those that the metrics of the options need.
std::vector<SumsType> needed_sums(const StepOptions& options, int64_t outputs) {
  const Labels labels = labels_of(options.loss);
  for (const std::string& name : options.metrics) {
    const auto& fitting = metric_type(name).labels;
    if (std::ranges::find(fitting, labels) != fitting.end()) continue;
    throw user_error("the metric {} is for {}, but the labels are {}", name,
                     fitting.front() == Labels::numbers ? "numbers" : "classes",
                     labels == Labels::classes ? "classes" : "numbers");
  }
  if (std::ranges::count(options.metrics, "auc") > 0 && Intervals(options, outputs).curves > kMostCurves)
    throw user_error("the metric auc is for at most {} classes, not {}", kMostCurves, outputs);
  std::vector<SumsType> needed;
  int64_t count = 0;
  for (const SumsType& sums : sums_types()) {
    const bool of_accuracy = labels == Labels::probabilities && sums.name == "class_counts";
    const bool asked = std::ranges::any_of(
        options.metrics, [&](const std::string& name) { return metric_type(name).sums == sums.name; });
    if (!of_accuracy && !asked) continue;
    needed.push_back(sums);
    count += sums.count(options, outputs);
  }
  if (count > kMostSums)
    throw user_error(
        "the metrics {} of {} classes need {} counts for each step, and there may be {}; leave out confusion_matrix",
        fmt::join(options.metrics, ", "), outputs, count, kMostSums);
  return needed;
}

std::string top_k_name(int64_t k) { return k == 1 ? "accuracy" : fmt::format("top{}", k); }

double positive_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

/// The mean of those that are numbers.
double mean_of_known(const std::vector<double>& values) {
  double sum = 0;
  double count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? kNone : sum / count;
}

/// Of one class: the fraction of the pairs of an own and another sample in which the own one has the larger
/// logit; equal ones count half.
double area_of(std::span<const double> counts, size_t curve, const Intervals& intervals) {
  const auto curves = static_cast<size_t>(intervals.curves);
  const auto count = static_cast<size_t>(intervals.count);
  double others = 0;
  double own = 0;
  double area = 0;
  for (size_t i = 0; i < count; ++i) {
    const double other_here = counts[i * curves + curve];
    const double own_here = counts[(i + count) * curves + curve];
    area += own_here * (others + other_here / 2);
    others += other_here;
    own += own_here;
  }
  return others * own > 0 ? area / (others * own) : kNone;
}

/// `sums`: of one number of the labels.
double r2_of(double squares, double sum, double sum_of_squares, double samples) {
  const double total = sum_of_squares - sum * sum / samples;
  return total > 0 ? 1 - squares / total : kNone;
}

}  // namespace

std::vector<std::string> further_metrics() {
  std::vector<std::string> names;
  for (const MetricType& type : metric_types()) names.push_back(type.name);
  return names;
}

std::vector<std::vector<double>> rows_of(const Figure& figure, std::span<const double> values) {
  const auto width = static_cast<size_t>(figure.shape[1]);
  std::vector<std::vector<double>> rows;
  for (; !values.empty(); values = values.subspan(width))
    rows.emplace_back(values.begin(), values.begin() + figure.shape[1]);
  return rows;
}

bool lower_is_better(const std::string& metric) {
  const auto found = std::ranges::find(metric_types(), metric, &MetricType::name);
  return metric == kLoss || (found != metric_types().end() && found->lower_is_better);
}

void add_metrics(GraphBuilder& graph, const StepOptions& options, ValueId prediction, ValueId label) {
  double weight = 1;
  const auto weighted = [&](ValueId sum) { return weight == 1 ? sum : scale(graph, sum, weight); };
  if (takes_classes(options.loss)) {
    const PositionRows rows = rows_of_positions(graph, prediction, label);
    prediction = rows.prediction;
    label = rows.label;
    weight = rows.weight;
    for (const int64_t k : options.top_k) {
      const ScopeGuard scope(graph, top_k_name(k));
      accumulate(graph, graph.metric(top_k_name(k)), weighted(top_k_correct(graph, prediction, label, k)));
    }
  }
  const Shape shape = graph.type(prediction).shape;
  if (shape.rank() != 2) {
    if (options.metrics.empty() && !takes_probabilities(options.loss)) return;
    throw user_error("the metrics of this loss are those of predictions [N, outputs], not {}", shape.str());
  }
  for (const SumsType& sums : needed_sums(options, shape[1])) {
    const ScopeGuard scope(graph, sums.name);
    const ValueId value = sums.build(graph, options, prediction, label);
    accumulate(graph, graph.metric(sums.name, sums.count(options, shape[1])),
               sums.of_samples ? weighted(value) : value);
  }
}

std::vector<std::string> names_of_sums(const StepOptions& options, int64_t outputs) {
  std::vector<std::string> names = {kLoss};
  if (takes_classes(options.loss))
    for (const int64_t k : options.top_k) names.push_back(top_k_name(k));
  for (const SumsType& sums : needed_sums(options, outputs)) {
    names.push_back(sums.name);
    for (int64_t i = 1; i < sums.count(options, outputs); ++i)
      names.push_back(fmt::format("{}.{}", sums.name, i));
  }
  return names;
}

Figures::Figures(const std::vector<std::string>& sums) {
  for (size_t i = 0; i < sums.size(); ++i) add_mean(sums[i], i);
}

Figures::Figures(const StepOptions& options, int64_t outputs) {
  const std::vector<std::string> sums = names_of_sums(options, outputs);
  const auto first_of = [&](const std::string& name) {
    return static_cast<size_t>(std::ranges::find(sums, name) - sums.begin());
  };
  const auto width = static_cast<size_t>(outputs);
  add_mean(kLoss, 0);
  if (takes_classes(options.loss))
    for (const int64_t k : options.top_k) add_mean(top_k_name(k), first_of(top_k_name(k)));
  if (takes_probabilities(options.loss))
    add({"accuracy"}, [first = first_of("class_counts"), width](auto sum, double samples) {
      const auto counts = sum.subspan(first);
      double wrong = 0;
      for (size_t i = 0; i < width; ++i) wrong += counts[width + i] + counts[2 * width + i] - 2 * counts[i];
      return Values{1 - wrong / (samples * static_cast<double>(width))};
    });
  for (const std::string& metric : options.metrics) {
    const MetricType& type = metric_type(metric);
    const size_t first = first_of(type.sums);
    if (type.ratio != nullptr) {
      add_averages(metric, first, outputs);
    } else if (metric == "confusion_matrix") {
      add({metric, {outputs, outputs}}, [first, width](auto sum, double /*samples*/) {
        const auto counts = sum.subspan(first, width * width);
        return Values(counts.begin(), counts.end());
      });
    } else if (metric == "auc") {
      const Intervals intervals(options, outputs);
      const auto areas = [first, intervals](auto sum, double /*samples*/) {
        Values of_each;
        for (int64_t i = 0; i < intervals.curves; ++i)
          of_each.push_back(area_of(sum.subspan(first), static_cast<size_t>(i), intervals));
        return of_each;
      };
      add({metric}, [areas](auto sum, double samples) { return Values{mean_of_known(areas(sum, samples))}; });
      if (intervals.curves > 1) add({"auc_per_class", {outputs}}, areas);
    } else if (metric == "r2") {
      add({metric}, [first, width](auto sum, double samples) {
        Values of_each;
        for (size_t i = first; i < first + width; ++i)
          of_each.push_back(r2_of(sum[i], sum[i + width], sum[i + 2 * width], samples));
        return Values{mean_of_known(of_each)};
      });
    } else {
      add({metric}, [first, metric](auto sum, double samples) {
        const double mean = sum[first] / samples;
        return Values{metric == "perplexity" ? std::exp(mean) : metric == "rmse" ? std::sqrt(mean) : mean};
      });
    }
  }
}

void Figures::add(Figure figure, Compute compute) {
  figures_.push_back(std::move(figure));
  computed_.push_back(std::move(compute));
}

void Figures::add_mean(const std::string& name, size_t sum) {
  add({name}, [sum](auto sums, double samples) { return Values{sums[sum] / samples}; });
}

void Figures::add_averages(const std::string& metric, size_t first, int64_t outputs) {
  const Ratio ratio = metric_type(metric).ratio;
  const auto width = static_cast<size_t>(outputs);
  const auto of_each = [=](auto sums) {
    Values values;
    for (size_t i = first; i < first + width; ++i) {
      const double predicted = sums[i + width];
      const double actual = sums[i + 2 * width];
      values.push_back(predicted + actual > 0 ? ratio(sums[i], predicted, actual) : kNone);
    }
    return values;
  };
  add({metric + "_macro"},
      [=](auto sums, double /*samples*/) { return Values{mean_of_known(of_each(sums))}; });
  add({metric + "_micro"}, [=](auto sums, double /*samples*/) {
    const auto total = [&](size_t part) {
      const auto counts = sums.subspan(first + part * width, width);
      return std::accumulate(counts.begin(), counts.end(), 0.0);
    };
    return Values{ratio(total(0), total(1), total(2))};
  });
  add({metric + "_per_class", {outputs}}, [=](auto sums, double /*samples*/) { return of_each(sums); });
}

std::vector<std::string> Figures::numbers() const {
  std::vector<std::string> names;
  for (const Figure& figure : figures_)
    if (figure.shape.rank() == 0) names.push_back(figure.name);
  return names;
}

std::vector<double> Figures::of(std::span<const double> sums, int64_t samples) const {
  std::vector<double> values;
  for (const Compute& compute : computed_)
    for (const double value : compute(sums, static_cast<double>(std::max<int64_t>(1, samples))))
      values.push_back(positive_nan(value));
  return values;
}

void Figures::for_each(std::span<const double> values,
                       const std::function<void(const Figure&, std::span<const double>)>& take) const {
  size_t next = 0;
  for (const Figure& figure : figures_) {
    const auto count = static_cast<size_t>(figure.shape.elements());
    take(figure, values.subspan(next, count));
    next += count;
  }
}

}  // namespace telar
