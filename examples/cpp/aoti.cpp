// Trains what aoti.py has compiled from a PyTorch module: its loss with gradients, and its predictions. No
// Python runs here; PyTorch's C++ library loads the compiled functions, and Telar divides the batches, sums
// the gradients and updates. Losses and predictions are those that aoti.py has found in PyTorch.
//
//   python examples/cpp/aoti.py FOLDER && telar_example_aoti FOLDER
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "with_torch.h"

namespace {

constexpr int kMostWorkers = 2;

/// The tensors of a file that torch.save has written.
c10::impl::GenericDict read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("there is no " + path.string() + "; aoti.py writes it");
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return torch::pickle_load(bytes).toGenericDict();
}

/// The compiled functions, each for calls of all workers at the same time, and the samples.
class Compiled {
 public:
  explicit Compiled(const std::filesystem::path& folder)
      : values_(read(folder / "values.pt")),
        training_((folder / "training.pt2").string(), "model", false, kMostWorkers),
        prediction_((folder / "prediction.pt2").string(), "model", false, kMostWorkers),
        images_(values_.at("images").toTensor()),
        labels_(values_.at("labels").toTensor()) {
    const auto names = values_.at("names").toList();
    for (size_t i = 0; i < names.size(); ++i)
      form_.parameters.push_back(
          parameter_of(names.get(i).toStringRef(), values_.at("parameters").toList().get(i).toTensor()));
    form_.name = "network";
    form_.prediction = {values_.at("classes").toInt()};
  }

  const telar::ExternalForm& form() const { return form_; }
  int64_t samples() const { return labels_.size(0); }
  /// The training in PyTorch.
  Training right() const {
    const torch::Tensor losses = values_.at("losses").toTensor();
    const torch::Tensor scores = values_.at("scores").toTensor();
    return {{losses.data_ptr<double>(), losses.data_ptr<double>() + losses.numel()},
            {scores.data_ptr<float>(), scores.data_ptr<float>() + scores.numel()}};
  }

  /// What Telar calls for each worker's share of a batch, on the worker's thread.
  void compute(const telar::ExternalCall& call) {
    const torch::InferenceMode without_gradients;  // the compiled function has them already
    std::vector<torch::Tensor> inputs;
    for (size_t i = 0; i < call.parameters.size(); ++i)
      inputs.push_back(tensor_of(call.parameters[i], form_.parameters[i].shape.dims()));
    const torch::Tensor rows = rows_of(call);
    inputs.push_back(images_.index_select(0, rows));
    if (call.mode == telar::ExternalMode::prediction) return copy_to(call.result, prediction_.run(inputs)[0]);
    inputs.push_back(labels_.index_select(0, rows));
    const std::vector<torch::Tensor> outputs = training_.run(inputs);  // sums over the samples
    copy_to(call.result, outputs[0]);
    for (size_t i = 0; i < call.gradients.size(); ++i) copy_to(call.gradients[i], outputs[i + 1]);
  }

 private:
  c10::impl::GenericDict values_;
  torch::inductor::AOTIModelPackageLoader training_;
  torch::inductor::AOTIModelPackageLoader prediction_;
  torch::Tensor images_;
  torch::Tensor labels_;
  telar::ExternalForm form_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: telar_example_aoti FOLDER, into which aoti.py has written");
  torch::set_num_threads(1);  // each worker is a thread already
  Compiled compiled(argv[1]);
  const telar::ExternalModel model(compiled.form(),
                                   [&](const telar::ExternalCall& call) { compiled.compute(call); });
  const bool one_is_same =
      is_same("one worker", train(model.model(), 1, compiled.samples()), compiled.right());
  const Training two = train(model.model(), kMostWorkers, compiled.samples());
  return is_same("two workers", two, compiled.right()) && one_is_same ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << "\n";
  return 1;
}
