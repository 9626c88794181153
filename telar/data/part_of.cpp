#include "telar/data/part_of.h"

#include <algorithm>
#include <utility>

#include "telar/core/error.h"

namespace telar {

namespace {

class PartOf : public Dataset {
 public:
  PartOf(DatasetPtr part, int64_t first, int64_t all) : part_(std::move(part)), first_(first), all_(all) {}

  int64_t size() const override { return all_; }
  const SampleSpec& spec() const override { return part_->spec(); }
  bool random() const override { return part_->random(); }

  void expect(int64_t index) const override { part_->expect(own(index)); }

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    part_->read(own(index), key, features, label);
  }

 private:
  int64_t own(int64_t index) const {
    if (index < first_ || index - first_ >= part_->size())
      throw run_error("Sample {} is one of another process; this one has {} to {}", index, first_,
                      first_ + part_->size() - 1);
    return index - first_;
  }

  DatasetPtr part_;
  int64_t first_;
  int64_t all_;
};

class WithClasses : public Dataset {
 public:
  WithClasses(DatasetPtr data, const std::vector<std::string>& names)
      : data_(std::move(data)), spec_(data_->spec()) {
    for (const std::string& name : spec_.class_names) {
      const auto found = std::ranges::find(names, name);
      if (found == names.end())
        throw user_error("There is no class {}; there are {}", name, fmt::join(names, ", "));
      labels_.push_back(static_cast<int32_t>(found - names.begin()));
    }
    spec_.class_names = names;
    spec_.classes = static_cast<int64_t>(names.size());
  }

  int64_t size() const override { return data_->size(); }
  const SampleSpec& spec() const override { return spec_; }
  bool random() const override { return data_->random(); }

  void expect(int64_t index) const override { data_->expect(index); }

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    data_->read(index, key, features, label);
    int32_t& number = as_ints(label)[0];
    number = labels_[static_cast<size_t>(number)];
  }

 private:
  DatasetPtr data_;
  SampleSpec spec_;
  std::vector<int32_t> labels_;  ///< the new number of each class
};

}  // namespace

DatasetPtr part_of(DatasetPtr part, int64_t first, int64_t all) {
  return std::make_shared<PartOf>(std::move(part), first, all);
}

DatasetPtr with_classes(DatasetPtr data, const std::vector<std::string>& names) {
  return std::make_shared<WithClasses>(std::move(data), names);
}

}  // namespace telar
