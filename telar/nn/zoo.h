#pragma once

#include <string>
#include <vector>

#include "telar/nn/model.h"

namespace telar {

/// The models available by name, and their options. Options are Attributes: integers, reals, flags, texts and
/// lists of integers.
///
///   mlp        hidden (list, [256, 256]), activation ("relu", or another of graph/ops/activation.h), dropout (0).
///              Any sample shape; parameters "fc1.weight" …
///   convnet    dropout (0.25). Small images, at least 4×4: the network of the Fashion-MNIST demo
///   lenet5     Images of at least 12×12 (LeCun et al., 1998, with ReLU and max pooling)
///   alexnet    dropout (0.5). torchvision's; images of at least 63×63. 61,100,840 parameters
///              with 1,000 classes
///   resnet18, resnet34, resnet50
///              stem ("7x7": stride 2 and max pool; "3x3": stride 1, for images as small as CIFAR's),
///              width (64, channels of the first stage).
///              torchvision's names and counts: 11,689,512 / 21,797,672 / 25,557,032 with 1,000 classes
///   lstm       hidden (128), layers (1), dropout (0, between layers), and for token ids vocabulary
///              (required) and embedding (128). Sample [T] i32, or [T, features] f32
///   gpt_small  layers (4), heads (4), width (128), dropout (0). Sample [T] i32; the prediction is
///              [N, T, classes], at each position the logits of the token that follows. The vocabulary is the
///              classes
///   text_classifier
///              width (64), vocabulary (required). Sample [T] i32, where 0 pads: the mean of the embeddings
///              of the other tokens, and a linear layer
///
/// Throws Error (user): an unknown model or option (with the nearest known one), an option of the wrong type
/// or out of range, a sample shape that does not fit (with the layer that it does not fit).
Model make_model(const std::string& name, const Attributes& options, const Shape& sample, int64_t classes);

std::vector<std::string> model_names();
/// The options of a model, for messages and completion. Throws Error (user) when there is no such model.
std::vector<std::string> option_names(const std::string& model);

}  // namespace telar
