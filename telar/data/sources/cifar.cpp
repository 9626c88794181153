#include "telar/data/arrays/cifar.h"

#include <utility>

#include "telar/data/source.h"

namespace telar {

namespace {

/// One of the two sets. `labels` selects them by the options.
SourceType cifar(const std::string& name, const std::string& summary, std::vector<Option> more,
                 Moments moments, CifarLabels (*labels)(const Attributes& options)) {
  std::vector<Option> options = {path_option("path", "The folder with the published files.")};
  options.insert(options.end(), more.begin(), more.end());
  return {.name = name,
          .summary = summary,
          .unit = "images",
          .options = std::move(options),
          .paths = {"path"},
          .test_paths = {"path"},
          .bytes_are_fractions = [](const Attributes&) { return true; },
          .moments = std::move(moments),
          .open =
              [labels](const SourceRequest& request, Split part) {
                return OpenedSource{open_cifar(request.options.text("path"), part, labels(request.options))};
              },
          .spec =
              [labels](const Attributes& given) {
                const CifarLabels of = labels(given);
                SampleSpec spec;
                spec.features = {3, 32, 32};
                spec.classes = of == CifarLabels::ten ? 10 : of == CifarLabels::coarse ? 20 : 100;
                return spec;
              },
          .check = [name](const Attributes& given) { require_path(name, given); },
          .owns = [](const std::string& file) { return file.ends_with(".bin"); }};
}

}  // namespace

void register_cifar(SourceRegistry& registry) {
  registry.add(cifar("cifar10", "CIFAR-10, the binary version", {},
                     {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}},
                     [](const Attributes&) { return CifarLabels::ten; }));
  registry.add(cifar("cifar100", "CIFAR-100, the binary version",
                     {samples_option("label_set", "fine", {.choices = {"fine", "coarse"}},
                                     "CIFAR-100's 100 classes, or its 20 superclasses.")},
                     {{0.5071, 0.4866, 0.4409}, {0.2673, 0.2564, 0.2762}}, [](const Attributes& options) {
                       return options.text("label_set") == "coarse" ? CifarLabels::coarse : CifarLabels::fine;
                     }));
}

}  // namespace telar
