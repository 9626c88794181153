#include "telar/graph/ops/communication.h"

#include <algorithm>
#include <numeric>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class ReduceBucketOp final : public Op {
 public:
  std::string_view name() const override { return "reduce_bucket"; }
  Effect effect() const override { return Effect::sums_gradients; }
  std::vector<TensorType> infer(const std::vector<TensorType>&, const Attributes&) const override {
    return {};
  }
};

class AllGatherOp final : public Op {
 public:
  std::string_view name() const override { return "all_gather"; }
  Effect effect() const override { return Effect::exchanges; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    if (inputs[0].dtype != DType::f32 || inputs[0].shape.rank() != 1) {
      throw run_error("all_gather: the value is {}; it must be f32 [K]", inputs[0].str());
    }
    return {{DType::f32, {attributes.integer("members"), inputs[0].shape[0]}}};
  }
};

/// The operations between members that share a batch. Each has another one as its gradient.
class SampleExchangeOp : public Op {
 public:
  explicit SampleExchangeOp(const SampleExchangeOp* gradient) : gradient_(*gradient) {}
  Effect effect() const override { return Effect::exchanges; }
  void gradient(GradientContext& context) const override {
    context.set(0, context.builder().add1(gradient_, {context.output_gradient(0)}, context.attributes()));
  }

 protected:
  /// At least 1: values of a member without samples keep one, which nobody reads (graph/idle_member.h).
  static int64_t own_samples(const Attributes& attributes) {
    const int64_t rows = attributes.integers("rows").at(static_cast<size_t>(attributes.integer("rank")));
    return std::max(attributes.integer("each"), rows);
  }
  static int64_t all_samples(const Attributes& attributes) {
    const std::vector<int64_t>& rows = attributes.integers("rows");
    return std::accumulate(rows.begin(), rows.end(), int64_t{0});
  }
  static int64_t own_features(const Attributes& attributes) {
    const std::vector<int64_t>& bounds = attributes.integers("bounds");
    const auto rank = static_cast<size_t>(attributes.integer("rank"));
    return bounds.at(rank + 1) - bounds.at(rank);
  }
  /// The type of the result: x with `samples` on axis 0, and `features` on axis 1 unless they are 0.
  TensorType result(const TensorType& x, int64_t samples, int64_t features) const {
    if (x.dtype == DType::bf16 || x.shape.rank() < (features > 0 ? 2U : 1U))
      throw run_error("{}: the value is {}, which cannot be exchanged", name(), x.str());
    TensorType type = x;
    type.shape[0] = samples;
    if (features > 0) type.shape[1] = features;
    return type;
  }

 private:
  const SampleExchangeOp& gradient_;
};

class AllGatherSamplesOp final : public SampleExchangeOp {
 public:
  using SampleExchangeOp::SampleExchangeOp;
  std::string_view name() const override { return "all_gather_samples"; }
  ExchangedSamples exchanged_samples() const override { return ExchangedSamples::gives_all; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    return {result(inputs[0], all_samples(attributes), 0)};
  }
};

class ReduceScatterSamplesOp final : public SampleExchangeOp {
 public:
  using SampleExchangeOp::SampleExchangeOp;
  std::string_view name() const override { return "reduce_scatter_samples"; }
  ExchangedSamples exchanged_samples() const override { return ExchangedSamples::gives_own; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    return {result(inputs[0], own_samples(attributes), 0)};
  }
};

class SamplesToFeaturesOp final : public SampleExchangeOp {
 public:
  using SampleExchangeOp::SampleExchangeOp;
  std::string_view name() const override { return "samples_to_features"; }
  ExchangedSamples exchanged_samples() const override { return ExchangedSamples::gives_all; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    return {result(inputs[0], all_samples(attributes), own_features(attributes))};
  }
};

class FeaturesToSamplesOp final : public SampleExchangeOp {
 public:
  using SampleExchangeOp::SampleExchangeOp;
  std::string_view name() const override { return "features_to_samples"; }
  ExchangedSamples exchanged_samples() const override { return ExchangedSamples::gives_own; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    return {result(inputs[0], own_samples(attributes), attributes.integers("bounds").back())};
  }
};

/// The operations between members with pieces of the same parameters. Each has the other as its gradient.
class ParameterExchangeOp : public Op {
 public:
  explicit ParameterExchangeOp(const ParameterExchangeOp* gradient) : gradient_(*gradient) {}
  Effect effect() const override { return Effect::exchanges; }
  bool exchanges_parameters() const override { return true; }

  /// Of those outputs that have a gradient: parameters that are not trained have none.
  void gradient(GradientContext& context) const override {
    const std::vector<int64_t>& extents = context.attributes().integers("extents");
    const std::vector<int64_t>& own = context.attributes().integers("own");
    std::vector<ValueId> given;
    std::vector<int64_t> extents_given;
    std::vector<int64_t> own_given;
    std::vector<size_t> inputs;
    for (size_t i = 0; i < context.output_count(); ++i) {
      if (context.output_gradient(i) == kNoValue || !context.needs(i)) continue;
      given.push_back(context.output_gradient(i));
      extents_given.push_back(extents[i]);
      own_given.push_back(own[i]);
      inputs.push_back(i);
    }
    const Attributes attributes = context.attributes().with("extents", extents_given).with("own", own_given);
    const auto results = context.builder().add(gradient_, std::move(given), attributes);
    for (size_t i = 0; i < inputs.size(); ++i) context.set(inputs[i], results[i]);
  }

 protected:
  /// Rows of the whole value i, and of this member's piece of it.
  static int64_t whole_rows(const Attributes& attributes, size_t i) {
    return attributes.integers("extents").at(i);
  }
  static int64_t own_rows(const Attributes& attributes, size_t i) { return attributes.integers("own").at(i); }
  /// The type of a result: the input with `rows` instead of `given` on axis 0.
  TensorType result(const TensorType& input, int64_t given, int64_t rows) const {
    if (input.dtype != DType::f32 || input.shape.rank() == 0 || input.shape[0] != given)
      throw run_error("{}: the value is {}; it must be f32 with {} rows", name(), input.str(), given);
    TensorType type = input;
    type.shape[0] = rows;
    return type;
  }

 private:
  const ParameterExchangeOp& gradient_;
};

class AllGatherParametersOp final : public ParameterExchangeOp {
 public:
  using ParameterExchangeOp::ParameterExchangeOp;
  std::string_view name() const override { return "all_gather_parameters"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    std::vector<TensorType> types;
    for (size_t i = 0; i < inputs.size(); ++i)
      types.push_back(result(inputs[i], own_rows(attributes, i), whole_rows(attributes, i)));
    return types;
  }
};

class ReduceScatterGradientsOp final : public ParameterExchangeOp {
 public:
  using ParameterExchangeOp::ParameterExchangeOp;
  std::string_view name() const override { return "reduce_scatter_gradients"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    std::vector<TensorType> types;
    for (size_t i = 0; i < inputs.size(); ++i)
      types.push_back(result(inputs[i], whole_rows(attributes, i), own_rows(attributes, i)));
    return types;
  }
};

extern const ReduceScatterGradientsOp kReduceScatterGradients;
const AllGatherParametersOp kAllGatherParameters(&kReduceScatterGradients);
const ReduceScatterGradientsOp kReduceScatterGradients(&kAllGatherParameters);
extern const ReduceScatterSamplesOp kReduceScatterSamples;
extern const FeaturesToSamplesOp kFeaturesToSamples;
const ReduceBucketOp kReduceBucket;
const AllGatherOp kAllGather;
const AllGatherSamplesOp kAllGatherSamples(&kReduceScatterSamples);
const ReduceScatterSamplesOp kReduceScatterSamples(&kAllGatherSamples);
const SamplesToFeaturesOp kSamplesToFeatures(&kFeaturesToSamples);
const FeaturesToSamplesOp kFeaturesToSamples(&kSamplesToFeatures);

/// `own`: rows of a value of the own samples.
Attributes attributes_of(int64_t own, const SampleGroup& group) {
  if (group.samples > 0 && own % group.samples != 0)
    throw run_error("{} rows of {} samples cannot be exchanged", own, group.samples);
  const std::vector<int64_t> rows(static_cast<size_t>(group.members), own);
  return {{"group", group.name},
          {"rank", group.rank},
          {"rows", rows},
          {"each", group.samples > 0 ? own / group.samples : int64_t{1}}};
}

Attributes attributes_of(GraphBuilder& builder, ValueId x, const SampleGroup& group) {
  return attributes_of(builder.type(x).shape[0], group);
}

/// For a value of all samples: every member has as many as the others until with_batch says otherwise.
Attributes attributes_of_all(GraphBuilder& builder, ValueId x, const SampleGroup& group) {
  return attributes_of(builder.type(x).shape[0] / group.members, group);
}

}  // namespace

void reduce_bucket(GraphBuilder& builder, int64_t bucket) {
  builder.add(kReduceBucket, {}, {{"bucket", bucket}});
}

ValueId all_gather(GraphBuilder& builder, ValueId x, int64_t members, const std::string& group) {
  return builder.add1(kAllGather, {x}, {{"group", group}, {"members", members}});
}

ValueId all_gather_samples(GraphBuilder& builder, ValueId x, const SampleGroup& group) {
  return builder.add1(kAllGatherSamples, {x}, attributes_of(builder, x, group));
}

ValueId reduce_scatter_samples(GraphBuilder& builder, ValueId x, const SampleGroup& group) {
  return builder.add1(kReduceScatterSamples, {x}, attributes_of_all(builder, x, group));
}

ValueId samples_to_features(GraphBuilder& builder, ValueId x, const SampleGroup& group,
                            const std::vector<int64_t>& bounds) {
  return builder.add1(kSamplesToFeatures, {x}, attributes_of(builder, x, group).with("bounds", bounds));
}

ValueId features_to_samples(GraphBuilder& builder, ValueId x, const SampleGroup& group,
                            const std::vector<int64_t>& bounds) {
  return builder.add1(kFeaturesToSamples, {x}, attributes_of_all(builder, x, group).with("bounds", bounds));
}

std::vector<ValueId> all_gather_parameters(GraphBuilder& builder, std::vector<ValueId> pieces,
                                           const std::vector<int64_t>& extents, const std::string& group,
                                           int64_t members) {
  std::vector<int64_t> own;
  for (const ValueId piece : pieces) own.push_back(builder.type(piece).shape[0]);
  return builder.add(kAllGatherParameters, std::move(pieces),
                     {{"group", group}, {"members", members}, {"extents", extents}, {"own", own}});
}

}  // namespace telar
