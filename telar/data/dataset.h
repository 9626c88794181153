#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "telar/core/dtype.h"
#include "telar/core/shape.h"

namespace telar {

/// The form of every sample of a dataset.
struct SampleSpec {
  Shape features;            ///< of one sample, without a batch axis: [C, H, W], [columns], [sequence]
  DType dtype = DType::f32;  ///< of the features: f32 or i32 (token ids)
  /// The features are f64 instead of f32, until they are normalised or rounded. Models take no such samples.
  bool wide = false;
  int64_t vocabulary = 0;  ///< token ids are below it; 0: it is not known
  int64_t classes = 0;  ///< the numbers of a label are classes, i32 0 … classes-1; 0 means regression, in f32
  /// Of one sample's label. []: one number. Of a text, [length]: a class for each position.
  Shape labels;
  std::vector<std::string> class_names;  ///< if the source knows them (image folders); otherwise empty

  size_t feature_bytes() const { return bytes_of(features, wide ? sizeof(double) : size_of(dtype)); }
  DType label_dtype() const { return classes > 0 ? DType::i32 : DType::f32; }
  size_t label_bytes() const { return bytes_of(labels, size_of(label_dtype())); }
  /// Whether a sample has several labels, each a class.
  bool labels_positions() const { return classes > 0 && labels.rank() > 0; }

 private:
  static size_t bytes_of(const Shape& shape, size_t element_bytes) {
    return static_cast<size_t>(product_of({shape.elements(), static_cast<int64_t>(element_bytes)}));
  }
};

/// What the random augmentation of a sample depends on, besides the sample's index. Worker and thread have no
/// influence.
struct SampleKey {
  uint64_t seed = 0;
  uint32_t epoch = 0;
};

/// Samples that can be read in any order. Sources validate as much as they can when they are opened;
/// decorators (normalised, augmented, cached …) wrap one dataset in another.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual const SampleSpec& spec() const = 0;

  /// Writes sample `index` (0 … size()-1). `features`: spec().feature_bytes() bytes, in the spec's dtype.
  /// `label`: spec().label_bytes() bytes, the classes as i32 or the targets as f32. Both addresses are
  /// aligned for the features' type. Thread-safe. Throws Error (user) if the sample turns out to be damaged.
  virtual void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
                    std::span<std::byte> label) const = 0;

  /// Announces that sample `index` will be read soon on the same thread: a prefetch for samples in memory.
  virtual void expect(int64_t /*index*/) const {}

  /// Whether the result of read() depends on its key.
  virtual bool random() const { return false; }
};

using DatasetPtr = std::shared_ptr<const Dataset>;

/// The part to read of a dataset that is published in two parts.
enum class Split : uint8_t { train, test };

/// Views of bytes as numbers.
inline std::span<float> as_floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}
inline std::span<double> as_doubles(std::span<std::byte> bytes) {
  return {reinterpret_cast<double*>(bytes.data()), bytes.size() / sizeof(double)};
}
inline std::span<int32_t> as_ints(std::span<std::byte> bytes) {
  return {reinterpret_cast<int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)};
}

}  // namespace telar
