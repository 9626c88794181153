#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "support/paths.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/data/dataset.h"
#include "telar/data/files.h"

namespace telar::test {

/// The folder of the Fashion-MNIST files: in $TELAR_DATA, or that of Debian's package dataset-fashion-mnist.
inline std::string fashion_mnist() {
  const char* root = std::getenv("TELAR_DATA");
  return std::string(root != nullptr ? root : "/usr/share/datasets") + "/fashion-mnist";
}

inline std::string fixture(const std::string& name) { return fixtures() + "/data/" + name; }

/// A folder for the current test, removed with its content at the end.
class TempFolder {
 public:
  TempFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() / (std::string("telar-") + test->test_suite_name() + "-" +
                                                      test->name() + "-" + std::to_string(getpid()));
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path(const std::string& name = "") const { return (path_ / name).string(); }
  std::string write(const std::string& name, std::span<const uint8_t> bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

/// One sample as read from a dataset.
struct Sample {
  std::vector<float> values;    ///< f32 features
  std::vector<int32_t> tokens;  ///< i32 features
  int32_t label = -1;
  std::vector<float> targets;
  bool operator==(const Sample&) const = default;
};

inline Sample read(const Dataset& data, int64_t index, const SampleKey& key = {}) {
  const SampleSpec& spec = data.spec();
  Sample sample;
  const auto count = static_cast<size_t>(spec.features.elements());
  (spec.dtype == DType::f32 ? sample.values.resize(count) : sample.tokens.resize(count));
  sample.targets.resize(spec.classes > 0 ? 0 : spec.label_bytes() / sizeof(float));
  const auto features = spec.dtype == DType::f32 ? std::as_writable_bytes(std::span(sample.values))
                                                 : std::as_writable_bytes(std::span(sample.tokens));
  const auto label = spec.classes > 0 ? std::as_writable_bytes(std::span(&sample.label, 1))
                                      : std::as_writable_bytes(std::span(sample.targets));
  if (!spec.wide) {
    data.read(index, key, features, label);
    return sample;
  }
  std::vector<double> wide(count);
  data.read(index, key, std::as_writable_bytes(std::span(wide)), label);
  sample.values.assign(wide.begin(), wide.end());
  return sample;
}

/// A dataset of numbers: sample i has `width` features of value i, and the class i mod 10.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size, int64_t width = 3) : size_(size) {
    spec_.features = {width};
    spec_.classes = 10;
  }
  int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    for (float& value : as_floats(features)) value = static_cast<float>(index);
    as_ints(label)[0] = static_cast<int32_t>(index % 10);
  }

 private:
  int64_t size_;
  SampleSpec spec_;
};

}  // namespace telar::test
