#include "telar/data/arrays/npy.h"

#include <gtest/gtest.h>

#include "data/support.h"
#include "support/npy_file.h"

namespace telar::test {
namespace {

Bytes saved(const std::string& name) { return read_file(fixture(name)); }

/// The bytes of an npy version 1 file with this header text and payload.
Bytes npy_bytes(const std::string& header, size_t payload) {
  Bytes bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  bytes.push_back(static_cast<uint8_t>(header.size() & 0xffU));
  bytes.push_back(static_cast<uint8_t>(header.size() >> 8U));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + payload);
  return bytes;
}

void expect_rejected(const Bytes& features, const std::vector<std::string_view>& pieces) {
  expect_error([&] { npy_from_bytes(features, saved("labels_i8.npy"), 3, "FEATURES", "LABELS"); }, pieces);
}

TEST(Npy, ReadsWhatNumpySaved) {
  const DatasetPtr data = open_npy(fixture("features_f4.npy"), fixture("labels_i8.npy"), 3);
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(data->spec().features, Shape({4}));
  EXPECT_EQ(read(*data, 1).values, (std::vector<float>{0.5F, 0.625F, 0.75F, 0.875F}));
  EXPECT_EQ(read(*data, 0).label, 2);
  EXPECT_EQ(read(*data, 1).label, 0);
  EXPECT_EQ(read(*data, 2).label, 1);
}

TEST(Npy, VersionTwoIsTheSame) {
  const DatasetPtr one = open_npy(fixture("features_f4.npy"), fixture("labels_i8.npy"), 3);
  const DatasetPtr two = open_npy(fixture("version2.npy"), fixture("labels_i4_column.npy"), 3);
  for (const int64_t i : {0, 1, 2}) EXPECT_EQ(read(*one, i), read(*two, i));
}

TEST(Npy, DoublesAndBytesBecomeFloats) {
  const DatasetPtr doubles = open_npy(fixture("features_f8.npy"), fixture("labels_i8.npy"), 3);
  EXPECT_EQ(doubles->spec().features, Shape({2, 2}));
  EXPECT_EQ(read(*doubles, 2).values, (std::vector<float>{1, 1.125F, 1.25F, 1.375F}));
  const DatasetPtr bytes = open_npy(fixture("features_u1.npy"), fixture("labels_i8.npy"), 3);
  EXPECT_EQ(bytes->spec().dtype, DType::f32);
  EXPECT_EQ(read(*bytes, 1).values, (std::vector<float>{127, 128}));
}

TEST(Npy, IntegersAreTokens) {
  const DatasetPtr tokens = open_npy(fixture("tokens_i4.npy"), fixture("labels_i8.npy"), 3);
  EXPECT_EQ(tokens->spec().dtype, DType::i32);
  EXPECT_EQ(read(*tokens, 0).tokens, (std::vector<int32_t>{1, -2, 3}));
  EXPECT_EQ(read(*tokens, 2).tokens, (std::vector<int32_t>{7, 8, 2147483647}));
}

TEST(Npy, RealLabelsAreTargetsOfARegression) {
  for (const char* features : {"features_f4.npy", "features_u1.npy"}) {
    const DatasetPtr data = open_npy(fixture(features), fixture("targets_f4.npy"), 0);
    EXPECT_EQ(data->spec().classes, 0);
    EXPECT_EQ(data->spec().labels, Shape({2}));
    EXPECT_EQ(read(*data, 2).targets, (std::vector<float>{4, 5.25F}));
  }
  EXPECT_EQ(read(*open_npy(fixture("features_u1.npy"), fixture("targets_f4.npy"), 0), 1).values,
            (std::vector<float>{127, 128}));
}

TEST(Npy, TargetsThatF32CannotTellApartAreTold) {
  const auto warning = [](double start) {
    const TempFolder folder;
    std::vector<double> targets;
    for (int i = 0; i < 100; ++i) targets.insert(targets.end(), {1.0 * i, start + i});
    write_npy(folder.path("y.npy"), targets, {2});
    return npy_target_warning(read_file(folder.path("y.npy")), "LABELS");
  };
  EXPECT_TRUE(says(warning(1.7e9), "LABELS: the targets have a standard deviation of 28.9 around 1.7e+09"));
  EXPECT_EQ(warning(1e5), "");
}

TEST(Npy, RejectsUnreadableFiles) {
  expect_rejected(saved("fortran.npy"), {"FEATURES", "Fortran"});
  expect_rejected(saved("big_endian.npy"), {"FEATURES", ">f4"});
  expect_rejected(saved("halves.npy"), {"FEATURES", "<f2"});
  expect_rejected({1, 2, 3}, {"FEATURES", "not an npy file"});
  Bytes bytes = saved("features_f4.npy");
  bytes.pop_back();
  expect_rejected(bytes, {"[3, 4]", "48 bytes", "but there are 47"});
  bytes.resize(bytes.size() + 2);
  expect_rejected(bytes, {"[3, 4]", "48 bytes", "but there are 49"});
  bytes.resize(50);
  expect_rejected(bytes, {"cut off at offset 50"});
  bytes = saved("features_f4.npy");
  bytes[6] = 9;
  expect_rejected(bytes, {"version 9", "offset 6"});
}

TEST(Npy, RejectsHostileHeaders) {
  const auto with_shape = [](const std::string& shape) {
    return npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n", 16);
  };
  expect_rejected(with_shape("(4611686018427387904, 4)"),
                  {"[4611686018427387904, 4]", "more elements than any file can hold"});
  expect_rejected(with_shape("(4611686018427387904, 4611686018427387904, 0)"), {"more elements"});
  expect_rejected(with_shape("()"), {"no samples"});
  expect_rejected(with_shape("(-4,)"), {"expected an extent", "offset"});
  expect_rejected(with_shape("(99999999999999999999,)"), {"expected an extent"});
  expect_rejected(with_shape("(4"), {"expected"});
  expect_rejected(npy_bytes("{'descr': [('a', '<f4')], 'shape': (4,)}", 16), {"quotes"});
  expect_rejected(npy_bytes("{'descr': '<f4'}", 16), {"'shape'"});
  expect_rejected(npy_bytes("{'descr': '<f4', 'evil': 1}", 16), {"'fortran_order'"});
  expect_rejected(npy_bytes("", 16), {"expected {", "offset 10"});
}

TEST(Npy, RejectsLabelsThatDoNotFit) {
  const auto open = [](const char* labels, int64_t classes) {
    npy_from_bytes(saved("features_f4.npy"), saved(labels), classes, "FEATURES", "LABELS");
  };
  expect_error([&] { open("labels_i8.npy", 2); }, {"LABELS", "value 2 at [0]", "0 … 1"});
  expect_error([&] { open("targets_f4.npy", 3); }, {"LABELS", "integers", "f4"});
  expect_error([&] { open("labels_i8.npy", 0); }, {"LABELS", "i8", "how many"});
  expect_error([&] { open("tokens_i4.npy", 3); }, {"LABELS", "[3, 3]"});
  const Bytes two = npy_bytes("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n", 8);
  expect_error([&] { npy_from_bytes(saved("features_f4.npy"), two, 3, "FEATURES", "LABELS"); },
               {"3 samples", "2 [2]"});
}

TEST(Npy, RejectsNanWithItsPlace) {
  Bytes bytes = saved("features_f4.npy");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + 128 + 5 * 4, &nan, sizeof nan);
  expect_rejected(bytes, {"FEATURES", "value nan at [1, 1]"});
}

}  // namespace
}  // namespace telar::test
