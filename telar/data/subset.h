#pragma once

#include <cstdint>
#include <vector>

#include "telar/data/dataset.h"
#include "telar/data/selection.h"

namespace telar {

/// The samples `indices` of another dataset, in that order. Throws Error (user) for an index that does not
/// exist.
DatasetPtr subset(DatasetPtr data, std::vector<int64_t> indices);

/// The selected samples of another dataset, of whose numbers the selection is.
DatasetPtr selected(DatasetPtr data, Selection selection);

/// `count` of `size` samples, at even distances. If the two are equal, these are the first ones.
class EvenNumbers {
 public:
  EvenNumbers(int64_t size, int64_t count) : size_(size), count_(count) {}
  int64_t count() const { return count_; }
  int64_t operator[](int64_t position) const {
    return size_ == count_ ? position : position * size_ / count_;
  }

 private:
  int64_t size_;
  int64_t count_;
};
DatasetPtr even_samples(DatasetPtr data, const EvenNumbers& numbers);

/// The samples sorted by class; samples of one class keep the order of the data. Reads all of them,
/// and keeps an array of 8 bytes for each. Throws Error (user) for data without classes.
DatasetPtr by_label(const DatasetPtr& data);

}  // namespace telar
