#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

struct StepOptions;

/// The metrics that a job may ask for beside loss and accuracy: "precision" …
std::vector<std::string> further_metrics();

/// Whether a smaller value of this metric is better: "loss", "mae" …
bool lower_is_better(const std::string& metric);

/// Adds the sums over the samples from which the metrics of the options follow, to metric buffers of a number
/// each ("log_loss") or of several ("class_counts", [3, classes]). Throws Error (user) for a metric that the
/// labels do not have, or that needs too many sums.
void add_metrics(GraphBuilder& graph, const StepOptions& options, ValueId prediction, ValueId label);

/// The names of all sums, loss first, with a name for each number: a buffer of several is that of the first,
/// "class_counts", and the others follow ("class_counts.1"). `outputs`: of a prediction, [N, outputs].
std::vector<std::string> names_of_sums(const StepOptions& options, int64_t outputs);

/// What is reported of samples: a number, a list with one for each class, or a matrix.
struct Figure {
  std::string name;  ///< "f1_macro", "f1_per_class", "confusion_matrix"
  Shape shape = {};  ///< no axis: a number
};

/// The rows of a matrix.
std::vector<std::vector<double>> rows_of(const Figure& figure, std::span<const double> values);

/// The figures that follow from sums over samples, however these were divided among workers and batches:
///   precision, recall, f1: _per_class; _macro, their mean; _micro, of all classes together. NaN for a class
///     that is neither among the labels nor the predictions, and left out of the mean. Another 0 / 0 is 0
///   confusion_matrix: samples by label (row) and prediction (column)
///   auc: the area under the ROC curve, of class 1 of two, or else the mean over the classes, one against the
///     rest. Samples whose logits of the probability are in the same interval count as equal, of which there
///     are 32,768 / curves
/// Of labels with several positions, each position counts like a sample of its own.
///   perplexity: e^(mean cross-entropy); mae, rmse, r2: the mean over several numbers of a sample, for r2 the
///     mean of theirs
class Figures {
 public:
  /// The mean of each sum.
  explicit Figures(const std::vector<std::string>& sums);
  /// Those of the options; see names_of_sums().
  Figures(const StepOptions& options, int64_t outputs);

  const std::vector<Figure>& all() const { return figures_; }
  /// Names of those that are numbers.
  std::vector<std::string> numbers() const;
  /// The values of all figures one after another, of `samples` samples; 0 for means of none.
  std::vector<double> of(std::span<const double> sums, int64_t samples) const;
  /// Calls take(figure, values) for each.
  void for_each(std::span<const double> values,
                const std::function<void(const Figure&, std::span<const double>)>& take) const;

 private:
  using Values = std::vector<double>;
  using Compute = std::function<Values(std::span<const double> sums, double samples)>;
  void add(Figure figure, Compute compute);
  void add_mean(const std::string& name, size_t sum);
  void add_averages(const std::string& metric, size_t first, int64_t outputs);

  std::vector<Figure> figures_;
  std::vector<Compute> computed_;
};

}  // namespace telar
