#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/support.h"
#include "telar/data/normalised.h"
#include "telar/data/reading_rules.h"
#include "telar/data/source.h"
#include "telar/io/output_file.h"
#include "telar/io/safetensors.h"

namespace telar::test {
namespace {

/// A safetensors file from its header and its data, both as they are.
Bytes tensor_file(const std::string& json, const Bytes& data) {
  Bytes file;
  for (size_t i = 0; i < 8; ++i) file.push_back(static_cast<uint8_t>(json.size() >> (8 * i)));
  file.insert(file.end(), json.begin(), json.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

template <typename T>
void append(Bytes& data, const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const uint8_t*>(values.data());
  data.insert(data.end(), begin, begin + values.size() * sizeof(T));
}

class SafetensorsSource : public testing::Test {
 protected:
  DatasetPtr open(const Bytes& file, const Attributes& more = {}, int64_t rules = kNewestRules) const {
    return opened(file, more, rules).samples;
  }

  OpenedSource opened(const Bytes& file, const Attributes& more, int64_t rules = kNewestRules) const {
    Attributes given = more;
    given.set("path", folder_.write("samples.safetensors", file));
    const SourceType& type = source_type("safetensors");
    const Attributes options = completed("source", type.options, given);
    type.check(options);
    return type.open({.options = options, .rules = rules}, Split::train);
  }

  /// Two samples of two features, with labels of this type and value.
  static Bytes two(const std::vector<float>& x, const std::vector<int64_t>& labels) {
    Bytes data;
    append(data, x);
    append(data, labels);
    return tensor_file(
        R"({"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"label":{"dtype":"I64","shape":[2],"data_offsets":[16,32]}})",
        data);
  }

  TempFolder folder_;
};

TEST_F(SafetensorsSource, ReadsFeaturesAndClasses) {
  const DatasetPtr data = open(two({1, 2, 3, 4.5F}, {7, 0}));
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->spec().features, Shape({2}));
  EXPECT_EQ(data->spec().classes, 10);
  EXPECT_EQ(read(*data, 1).values, (std::vector<float>{3, 4.5F}));
  EXPECT_EQ(read(*data, 0).label, 7);
}

TEST_F(SafetensorsSource, ReadsWhatTelarWritesWithTargetsAndOtherNames) {
  const std::string path = folder_.path("written.safetensors");
  {
    OutputFile file(path, OutputFile::Mode::create);
    write_safetensors(file, std::vector<NamedTensor>{{"images", {3, 1, 2, 2}, std::vector<float>(12, 0.5F)},
                                                     {"y", {3, 2}, {1, 2, 3, 4, 5, 6}}});
  }
  const SourceType& type = source_type("safetensors");
  const Attributes options =
      completed("source", type.options,
                {{"path", path}, {"features", "images"}, {"labels", "y"}, {"classes", int64_t{0}}});
  const DatasetPtr data = type.open({.options = options}, Split::train).samples;
  EXPECT_EQ(data->spec().features, Shape({1, 2, 2}));
  EXPECT_EQ(data->spec().labels, Shape({2}));
  EXPECT_EQ(read(*data, 2).targets, (std::vector<float>{5, 6}));
}

TEST_F(SafetensorsSource, IntegersAreTokenIds) {
  Bytes data;
  append<int32_t>(data, {5, 6, 7, (1 << 24) + 1});
  append<int32_t>(data, {1, 0});
  const std::string json =
      R"({"x":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]},"label":{"dtype":"I32","shape":[2,1],"data_offsets":[16,24]}})";
  const DatasetPtr tokens = open(tensor_file(json, data));
  EXPECT_EQ(tokens->spec().dtype, DType::i32);
  EXPECT_EQ(read(*tokens, 1).tokens, (std::vector<int32_t>{7, (1 << 24) + 1}));
  Bytes large;
  append<int64_t>(large, {5, int64_t{1} << 31});
  append<int64_t>(large, {1, 0});
  const std::string of_64_bits =
      R"({"x":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},"label":{"dtype":"I64","shape":[2],"data_offsets":[16,32]}})";
  expect_error([&] { open(tensor_file(of_64_bits, large)); },
               {"\"x\"", "value 1 is 2147483648", "to 2147483647"});
}

TEST_F(SafetensorsSource, NumbersOf64BitsKeepTheirDigits) {
  Bytes data;
  append<double>(data, {1.7e9 + 1, 1.7e9 + 2});
  append<float>(data, {0, 1});
  const Bytes file = tensor_file(
      R"({"x":{"dtype":"F64","shape":[2,1],"data_offsets":[0,16]},"label":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}})",
      data);
  const DatasetPtr seconds = open(file);
  EXPECT_TRUE(seconds->spec().wide);
  EXPECT_EQ(read(*normalised(seconds, {1.7e9}, {0.5}), 1).values[0], 4);
  EXPECT_FALSE(open(file, {}, 2)->spec().wide) << "a run from before reads as it did";
}

TEST_F(SafetensorsSource, TargetsThatF32CannotTellApartAreTold) {
  const auto notes = [&](double start) {
    Bytes data;
    append<float>(data, {0, 1});
    append<double>(data, {start, start + 1});
    return opened(
               tensor_file(
                   R"({"x":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"label":{"dtype":"F64","shape":[2],"data_offsets":[8,24]}})",
                   data),
               {{"classes", int64_t{0}}})
        .notes;
  };
  EXPECT_TRUE(notes(1e5).empty());
  ASSERT_EQ(notes(1.7e9).size(), 1U);
  EXPECT_TRUE(says(notes(1.7e9)[0], "the targets have a standard deviation of 0.5 around 1.7e+09"));
}

TEST_F(SafetensorsSource, NumbersToPredictKeepTheirDigits) {
  const SourceType& type = source_type("safetensors");
  const auto to_predict = [&](const std::string& dtype, const Bytes& data, int64_t rules) {
    const Bytes file =
        tensor_file(R"({"x":{"dtype":")" + dtype + R"(","shape":[1,1],"data_offsets":[0,8]}})", data);
    const DatasetPtr samples =
        type.inputs.open({.path = "x", .bytes = file, .features = {1}, .rules = rules}, nullptr);
    return read(*normalised(samples, {1.7e9}, {0.5}), 0).values[0];
  };
  Bytes real;
  append<double>(real, {1.7e9 + 1});
  Bytes whole;
  append<int64_t>(whole, {1'700'000'001});
  EXPECT_EQ(to_predict("F64", real, kNewestRules), 2);
  EXPECT_EQ(to_predict("I64", whole, kNewestRules), 2);
  EXPECT_EQ(to_predict("F64", real, 2), 0);
}

TEST_F(SafetensorsSource, RefusesWhatIsNoSample) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_error([&] { open(two({1, nan, 3, 4}, {0, 0})); }, {"tensor \"x\"", "value 1 is nan", "finite"});
  expect_error([&] { open(two({1, 2, 3, 4}, {0, 10})); }, {"\"label\"", "value 1 is 10", "from 0 to 9"});
  expect_error([&] { open(two({1, 2, 3, 4}, {0, -1})); }, {"value 1 is -1"});
  expect_error([&] { open(two({1, 2, 3, 4}, {0, 0}), {{"features", "X"}}); }, {"no tensor \"X\"", "\"x\""});
  expect_error(
      [&] {
        open(two({1, 2, 3, 4}, {0, 0}), {{"features", "label"}, {"labels", "x"}});
      },
      {"labels of classes must have [N] or [N, 1]"});
}

TEST_F(SafetensorsSource, RefusesDamagedFiles) {
  const Bytes whole = two({1, 2, 3, 4}, {0, 1});
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(open(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length))), Error) << length;
  const auto with = [](const std::string& x, const std::string& label, size_t bytes) {
    return tensor_file(R"({"x":{"dtype":"F32",)" + x + R"(},"label":{"dtype":"F32",)" + label + "}}",
                       Bytes(bytes));
  };
  expect_error(
      [&] { open(with(R"("shape":[0,2],"data_offsets":[0,0])", R"("shape":[0],"data_offsets":[0,0])", 0)); },
      {"[0, 2]", "at least one sample"});
  expect_error(
      [&] { open(with(R"("shape":[2],"data_offsets":[0,8])", R"("shape":[3],"data_offsets":[8,20])", 20)); },
      {"2 samples", "3", "axis 0 must be the same"});
  EXPECT_THROW(open(with(R"("shape":[4294967296,4294967296],"data_offsets":[0,8])",
                         R"("shape":[2],"data_offsets":[8,16])", 16)),
               Error);
  EXPECT_THROW(open(tensor_file(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                R"("label":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                Bytes(2))),
               Error);
}

TEST_F(SafetensorsSource, PredictsFromTheOnlyTensorOrTheModelsOwn) {
  const SourceType& type = source_type("safetensors");
  Bytes data;
  append<float>(data, {1, 2, 3, 4});
  const Bytes one = tensor_file(R"({"anything":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", data);
  const DatasetPtr only = type.inputs.open({.path = "f", .bytes = one, .features = {2}}, nullptr);
  EXPECT_EQ(only->size(), 2);
  EXPECT_EQ(read(*only, 1).values, (std::vector<float>{3, 4}));
  const InputFile both{.path = "f", .bytes = two({1, 2, 3, 4}, {0, 0}), .features = {2}};
  expect_error([&] { type.inputs.open(both, nullptr); }, {"f has 2 tensors", "must have one"});
  const Attributes options = completed("source", type.options, {});
  EXPECT_EQ(read(*type.inputs.open(both, &options), 0).values, (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace telar::test
