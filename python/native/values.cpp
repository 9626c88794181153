#include "python/native/values.h"

#include <algorithm>
#include <functional>

#include "telar/core/error.h"
#include "telar/core/option.h"

namespace telar::python {

namespace nb = nanobind;

namespace {

template <typename Item>
std::vector<Item> list_of(const nb::handle& values) {
  std::vector<Item> items;
  for (const nb::handle item : nb::borrow<nb::sequence>(values)) items.push_back(nb::cast<Item>(item));
  return items;
}

/// The type of a list is that of its first item; an empty one is of integers.
Attribute attribute_of_list(const std::string& name, const nb::handle& values) {
  if (nb::len(values) == 0) return std::vector<int64_t>{};
  const nb::object first = nb::borrow<nb::sequence>(values)[0];
  if (nb::isinstance<nb::int_>(first)) return list_of<int64_t>(values);
  if (nb::isinstance<nb::float_>(first)) return list_of<double>(values);
  if (nb::isinstance<nb::str>(first)) return list_of<std::string>(values);
  throw user_error("the attribute {} is a list of other things than numbers or texts", name);
}

Attribute attribute_of(const std::string& name, const nb::handle& value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value))
    return attribute_of_list(name, value);
  throw user_error("the attribute {} is neither a number nor a text, nor a list of these", name);
}

/// The options of an optimizer. An integer is accepted for a real number.
std::vector<Option> options_of(const std::string& optimizer) {
  const auto real = [](const char* name, double fallback) {
    return Option{.name = name, .fallback = fallback, .rule = {.least = 0}, .help = ""};
  };
  const auto flag = [](const char* name) { return Option{.name = name, .fallback = false, .help = ""}; };
  if (optimizer == "sgd")
    return {real("momentum", 0), real("weight_decay", 0), flag("nesterov"), flag("keras")};
  if (optimizer == "adam" || optimizer == "adamw")
    return {real("beta1", 0.9), real("beta2", 0.999), real("epsilon", 1e-8), real("weight_decay", 0),
            flag("keras")};
  if (optimizer == "rmsprop")
    return {real("alpha", 0.99), real("epsilon", 1e-8), real("momentum", 0), real("weight_decay", 0),
            flag("keras")};
  if (optimizer == "adagrad") return {real("lr_decay", 0), real("epsilon", 1e-10), real("weight_decay", 0)};
  throw user_error("there is no optimizer '{}'; there are sgd, adam, adamw, rmsprop and adagrad", optimizer);
}

}  // namespace

Attributes attributes_of(const nb::dict& values) {
  Attributes attributes;
  for (const auto& [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    attributes.set(name, attribute_of(name, value));
  }
  return attributes;
}

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::i32})
    if (name == name_of(dtype)) return dtype;
  throw user_error("there is no element type '{}'; there are f32 and i32", name);
}

Shape shape_of(const AnyArray& array) {
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < array.ndim(); ++axis) dims.push_back(static_cast<int64_t>(array.shape(axis)));
  return Shape(std::move(dims));
}

bool has_dtype(const AnyArray& array, DType dtype) {
  return array.dtype() == (dtype == DType::f32 ? nb::dtype<float>() : nb::dtype<int32_t>());
}

std::span<const float> numbers_of(const FloatArray& array) { return {array.data(), array.size()}; }

nb::ndarray<nb::numpy, float> to_numpy(std::vector<float> numbers, const Shape& shape) {
  auto* kept = new std::vector<float>(std::move(numbers));
  const nb::capsule owner(kept, [](void* memory) noexcept {
    delete static_cast<std::vector<float>*>(memory);  // NOLINT(cppcoreguidelines-owning-memory)
  });
  const std::vector<size_t> dims(shape.begin(), shape.end());
  return {kept->data(), dims.size(), dims.data(), owner};
}

Optimizer optimizer_of(const std::string& name, const Attributes& given) {
  const Attributes options = completed("optimizer '" + name + "'", options_of(name), given);
  const auto real = [&](const char* option) { return options.real(option); };
  if (name == "sgd")
    return SgdOptions{.momentum = real("momentum"),
                      .nesterov = options.flag("nesterov"),
                      .weight_decay = real("weight_decay"),
                      .keras = options.flag("keras")};
  if (name == "rmsprop")
    return RmspropOptions{.alpha = real("alpha"),
                          .epsilon = real("epsilon"),
                          .momentum = real("momentum"),
                          .weight_decay = real("weight_decay"),
                          .keras = options.flag("keras")};
  if (name == "adagrad")
    return AdagradOptions{
        .lr_decay = real("lr_decay"), .epsilon = real("epsilon"), .weight_decay = real("weight_decay")};
  return AdamOptions{.beta1 = real("beta1"),
                     .beta2 = real("beta2"),
                     .epsilon = real("epsilon"),
                     .weight_decay = real("weight_decay"),
                     .decoupled = name == "adamw",
                     .keras = options.flag("keras")};
}

}  // namespace telar::python
