#include "telar/data/arrays/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <numeric>

#include "data/support.h"

namespace telar::test {
namespace {

/// The bytes of an IDX file: magic, extents, and `payload` bytes 0, 1, 2 … modulo `modulo`.
Bytes idx_bytes(uint32_t magic, const std::vector<uint32_t>& extents, size_t payload, uint8_t modulo) {
  Bytes bytes;
  const auto put = [&bytes](uint32_t word) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes.push_back(static_cast<uint8_t>(word >> shift));
  };
  put(magic);
  for (const uint32_t extent : extents) put(extent);
  for (size_t i = 0; i < payload; ++i) bytes.push_back(static_cast<uint8_t>(i % modulo));
  return bytes;
}

Bytes three_images() { return idx_bytes(0x803, {3, 2, 2}, 12, 255); }
Bytes three_labels() { return idx_bytes(0x801, {3}, 3, 10); }

void expect_rejected(const Bytes& images, const Bytes& labels, const std::vector<std::string_view>& pieces) {
  expect_error([&] { idx_from_bytes(images, labels, 10, "IMAGES", "LABELS"); }, pieces);
}

// The sums and labels below were computed with Python's gzip and NumPy from Debian's files.
TEST(Idx, ReadsTheRealFashionMnist) {
  const DatasetPtr train = open_idx_folder(fashion_mnist(), Split::train);
  ASSERT_EQ(train->size(), 60000);
  EXPECT_EQ(train->spec().features, Shape({1, 28, 28}));
  EXPECT_EQ(train->spec().classes, 10);
  const std::vector<int32_t> first = {9, 0, 0, 3, 0, 2, 7, 2, 5, 5};
  std::vector<int64_t> per_class(10);
  double sum = 0;
  for (int64_t i = 0; i < train->size(); ++i) {
    const Sample sample = read(*train, i);
    ++per_class[static_cast<size_t>(sample.label)];
    if (i < 10) {
      EXPECT_EQ(sample.label, first[static_cast<size_t>(i)]);
    }
    sum = std::accumulate(sample.values.begin(), sample.values.end(), sum);
  }
  EXPECT_EQ(per_class, std::vector<int64_t>(10, 6000));
  EXPECT_NEAR(sum * 255, 3431114169.0, 1000);
  EXPECT_FLOAT_EQ(read(*train, 0).values[10 * 28 + 14], 228.0F / 255);

  const DatasetPtr test = open_idx_folder(fashion_mnist(), Split::test);
  ASSERT_EQ(test->size(), 10000);
  const Sample last = read(*test, 9999);
  EXPECT_EQ(last.label, 5);
  EXPECT_NEAR(std::accumulate(last.values.begin(), last.values.end(), 0.0) * 255, 24390, 0.1);
}

TEST(Idx, PlainAndGzipFilesAreEqual) {
  const TempFolder folder;
  for (const char* name : {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    folder.write(name, read_gzip(fashion_mnist() + "/" + name + ".gz", UINT64_MAX));
  }
  const DatasetPtr plain = open_idx_folder(folder.path(), Split::test);
  const DatasetPtr zipped = open_idx_folder(fashion_mnist(), Split::test);
  ASSERT_EQ(plain->size(), zipped->size());
  for (const int64_t i : {0, 1, 4711, 9999}) EXPECT_EQ(read(*plain, i), read(*zipped, i));
}

TEST(Idx, BytesBecomeFractionsOf255) {
  const DatasetPtr data = idx_from_bytes(three_images(), three_labels(), 10, "a", "b");
  ASSERT_EQ(data->size(), 3);
  const Sample last = read(*data, 2);
  EXPECT_EQ(last.label, 2);
  EXPECT_FLOAT_EQ(last.values[3], 11.0F / 255);
}

TEST(Idx, RejectsDamagedHeadersAndSizes) {
  const Bytes images = three_images();
  const Bytes labels = three_labels();
  Bytes bytes = images;
  bytes.pop_back();
  expect_rejected(bytes, labels, {"IMAGES", "cut off at offset 27", "28 bytes", "[3, 2, 2]"});
  bytes = images;
  bytes.push_back(0);
  expect_rejected(bytes, labels, {"IMAGES", "continues after offset 28"});
  expect_rejected(labels, images, {"IMAGES", "offset 3", "exchanged"});
  expect_rejected(idx_bytes(0x89504e47, {3, 2, 2}, 12, 255), labels, {"not an IDX file", "offset 0"});
  expect_rejected(idx_bytes(0xd03, {3, 2, 2}, 48, 255), labels, {"0x0d", "offset 2"});
  expect_rejected(idx_bytes(0x803, {3, 0, 2}, 0, 255), labels, {"extent 1 is 0", "offset 8"});
  expect_rejected({0, 0, 8, 3, 0, 0}, labels, {"cut off at offset 6"});
  expect_rejected({}, labels, {"0 bytes"});
  expect_rejected(images, idx_bytes(0x801, {2}, 2, 10), {"3 images", "2 labels"});
}

TEST(Idx, RejectsALabelOutsideTheClasses) {
  Bytes labels = three_labels();
  labels[9] = 10;
  expect_rejected(three_images(), labels, {"LABELS", "label 10", "offset 9", "0 … 9"});
}

TEST(Idx, RejectsAnOversizedHeaderWithoutAllocating) {
  const TempFolder folder;
  const std::string labels = folder.write("labels", three_labels());
  // 2^32-1 images of 2^32-1 x 2^32-1: the product does not even fit in 64 bits.
  const std::string images = folder.write("images", idx_bytes(0x803, {~0U, ~0U, ~0U}, 12, 255));
  expect_error([&] { open_idx(images, labels); },
               {images, "[4294967295, 4294967295, 4294967295]", "than any file can hold"});

  const std::string zipped = folder.path("images.gz");
  const Bytes large = idx_bytes(0x803, {4000000, 28, 28}, 1000, 255);
  gzFile file = gzopen(zipped.c_str(), "wb");
  gzwrite(file, large.data(), static_cast<unsigned>(large.size()));
  gzclose(file);
  expect_error([&] { open_idx(zipped, labels); }, {zipped, "can hold at most"});
}

TEST(Idx, RejectsMissingAndTruncatedFiles) {
  const TempFolder folder;
  expect_error([&] { open_idx_folder(folder.path("no"), Split::train); },
               {folder.path("no"), "no such folder"});
  expect_error([&] { open_idx_folder(folder.path(), Split::train); }, {"train-images-idx3-ubyte"});
  expect_error([&] { open_idx(folder.path(), folder.path()); }, {"is a folder"});

  Bytes zipped = read_file(fashion_mnist() + "/t10k-images-idx3-ubyte.gz");
  zipped.resize(zipped.size() / 2);
  folder.write("t10k-images-idx3-ubyte.gz", zipped);
  folder.write("t10k-labels-idx1-ubyte.gz", read_file(fashion_mnist() + "/t10k-labels-idx1-ubyte.gz"));
  expect_error([&] { open_idx_folder(folder.path(), Split::test); }, {"t10k-images", "damaged or cut off"});

  zipped = read_file(fashion_mnist() + "/t10k-images-idx3-ubyte.gz");
  zipped[zipped.size() / 2] ^= 0x55;
  folder.write("t10k-images-idx3-ubyte.gz", zipped);
  expect_error([&] { open_idx_folder(folder.path(), Split::test); }, {"t10k-images", "damaged"});
}

}  // namespace
}  // namespace telar::test
