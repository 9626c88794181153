// Trains a module of PyTorch's C++ library under strategies of Telar: PyTorch computes the loss and its
// gradients, Telar divides the batches among workers, sums the gradients and updates. Losses and predictions
// are those of PyTorch alone.
#include "with_torch.h"

namespace {

constexpr int64_t kSamples = 256;
constexpr int64_t kClasses = 4;

torch::nn::Sequential network() {
  using namespace torch::nn;
  return Sequential(Conv2d(1, 8, 3), ReLU(), MaxPool2d(2), Flatten(), Linear(8 * 5 * 5, kClasses));
}

/// Images whose class is that of the largest product with a random pattern.
struct Data {
  torch::Tensor images = torch::randn({kSamples, 1, 12, 12});
  torch::Tensor labels = images.flatten(1).matmul(torch::randn({144, kClasses})).argmax(1);
};

torch::Tensor loss_of(torch::nn::Sequential& net, const torch::Tensor& images, const torch::Tensor& labels,
                      torch::Reduction::Reduction reduction) {
  const torch::Tensor scores = net->forward(images);
  return torch::cross_entropy_loss(scores, labels, {}, reduction);
}

/// What Telar calls for each worker's share of a batch, on the worker's thread.
void compute(const Data& data, const telar::ExternalCall& call) {
  thread_local torch::nn::Sequential net = network();  // a worker's copy, whose parameters are Telar's memory
  const std::vector<torch::Tensor> parameters = net->parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    parameters[i].set_data(tensor_of(call.parameters[i], parameters[i].sizes()));
  const torch::AutoGradMode computes_gradients(call.mode == telar::ExternalMode::training);
  const torch::Tensor rows = rows_of(call);
  const torch::Tensor images = data.images.index_select(0, rows);
  if (call.mode == telar::ExternalMode::prediction) return copy_to(call.result, net->forward(images));
  // Sums over the samples: a mean would depend on how the batch was divided.
  const torch::Tensor loss = loss_of(net, images, data.labels.index_select(0, rows), at::Reduction::Sum);
  copy_to(call.result, loss.detach());
  if (call.mode == telar::ExternalMode::evaluation) return;
  const std::vector<torch::Tensor> gradients = torch::autograd::grad({loss}, parameters);
  for (size_t i = 0; i < gradients.size(); ++i) copy_to(call.gradients[i], gradients[i]);
}

telar::ExternalForm form_of(torch::nn::Sequential& net) {
  telar::ExternalForm form{"network", {}, {kClasses}};
  for (const auto& parameter : net->named_parameters())
    form.parameters.push_back(parameter_of(parameter.key(), parameter.value()));
  return form;
}

/// The same training in PyTorch alone.
Training train_in_torch(torch::nn::Sequential& net, const Data& data) {
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(kLearningRate).momentum(kMomentum));
  Training training;
  for (int64_t number = 0; number < kSteps; ++number) {
    const torch::Tensor rows = torch::tensor(rows_of_batch(number, kSamples)).to(torch::kLong);
    const torch::Tensor loss = loss_of(net, data.images.index_select(0, rows),
                                       data.labels.index_select(0, rows), at::Reduction::Mean);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    training.losses.push_back(loss.item<double>());
  }
  const torch::Tensor scores = net->forward(data.images.slice(0, 0, kBatch)).contiguous();
  training.predictions.assign(scores.data_ptr<float>(), scores.data_ptr<float>() + scores.numel());
  return training;
}

}  // namespace

int main() try {
  torch::set_num_threads(1);  // each worker is a thread already
  torch::manual_seed(0);
  const Data data;
  torch::nn::Sequential net = network();
  const telar::ExternalModel model(form_of(net),
                                   [&data](const telar::ExternalCall& call) { compute(data, call); });
  const Training one = train(model.model(), 1, kSamples);
  const Training two = train(model.model(), 2, kSamples);
  const Training right = train_in_torch(net, data);
  const bool one_is_same = is_same("one worker", one, right);
  return is_same("two workers", two, right) && one_is_same ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << "\n";
  return 1;
}
