#include "telar/data/pictures/image_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/support.h"
#include "support/pictures.h"
#include "telar/data/pictures/image.h"
#include "telar/data/pictures/resize.h"

namespace telar::test {
namespace {

Image plain(int64_t height, int64_t width, uint8_t red, uint8_t green, uint8_t blue) {
  Image image{height, width, 3, {}};
  for (int64_t i = 0; i < height * width; ++i) image.pixels.insert(image.pixels.end(), {red, green, blue});
  return image;
}

DatasetPtr open_image_folder(const std::string& folder, const ImageFolderOptions& options,
                             bool check_headers = true) {
  return open_pictures(list_pictures(folder, {.check_headers = check_headers}), options);
}

void expect_colour(const Sample& sample, const std::vector<float>& channels, float tolerance) {
  const size_t plane = sample.values.size() / channels.size();
  for (size_t i = 0; i < sample.values.size(); ++i) {
    ASSERT_NEAR(sample.values[i], channels[i / plane] / 255, tolerance) << "at " << i;
  }
}

TEST(ImageFolder, ReadsClassesInTheOrderOfTheirNames) {
  const TempFolder folder;
  folder.write("rust/2.jpeg", jpeg_of(plain(40, 30, 183, 65, 14)));
  folder.write("rust/1.PNG", png_of(plain(3, 5, 180, 60, 10)));
  folder.write("blue/x.jpg", jpeg_of(plain(16, 16, 0, 0, 255)));
  folder.write("blue/notes.txt", Bytes{'h', 'i'});
  folder.write("blue/.hidden.png", Bytes{});
  folder.write("README", Bytes{'h', 'i'});
  const DatasetPtr data = open_image_folder(folder.path(), {.height = 8, .width = 6});
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(data->spec().features, Shape({3, 8, 6}));
  EXPECT_EQ(data->spec().classes, 2);
  EXPECT_EQ(data->spec().class_names, (std::vector<std::string>{"blue", "rust"}));
  EXPECT_EQ(read(*data, 0).label, 0);
  EXPECT_EQ(read(*data, 1).label, 1);
  expect_colour(read(*data, 0), {0, 0, 255}, 0.02F);
  expect_colour(read(*data, 1), {180, 60, 10}, 1e-6F);
  expect_colour(read(*data, 2), {183, 65, 14}, 0.02F);
}

TEST(ImageFolder, GreyHasOneChannel) {
  const TempFolder folder;
  folder.write("a/x.jpg", jpeg_of(plain(16, 16, 90, 90, 90)));
  folder.write("a/y.png", png_of(plain(16, 16, 90, 90, 90)));
  const DatasetPtr data = open_image_folder(folder.path(), {.height = 4, .width = 4, .channels = 1});
  EXPECT_EQ(data->spec().features, Shape({1, 4, 4}));
  expect_colour(read(*data, 0), {90}, 0.01F);
  expect_colour(read(*data, 1), {90}, 1e-6F);
}

// PyTorch's interpolate(mode="bilinear", align_corners=False, antialias=True) in f64:
// tests/fixtures/data/make.py.
TEST(ImageFolder, ResizesAsPyTorchDoes) {
  std::ifstream file(fixture("resized.json"));
  const auto json = nlohmann::json::parse(file);
  Image image{7, 5, 3, {}};
  for (const auto& row : json["image"]) {
    for (const auto& pixel : row) {
      for (const auto& value : pixel) image.pixels.push_back(value.get<uint8_t>());
    }
  }
  ASSERT_EQ(json["results"].size(), 5U);
  for (const auto& result : json["results"]) {
    const int64_t height = result["size"][0];
    const int64_t width = result["size"][1];
    std::vector<float> planes(static_cast<size_t>(3 * height * width));
    resize_to_planes(image, height, width, planes);
    ASSERT_EQ(result["values"].size(), planes.size());
    for (size_t i = 0; i < planes.size(); ++i) {
      EXPECT_NEAR(planes[i], result["values"][i].get<float>(), 2e-6)
          << height << " x " << width << " at " << i;
    }
  }
}

TEST(ImageFolder, RejectsFilesThatAreNotImagesWhenOpened) {
  const TempFolder folder;
  const ImageFolderOptions options{.height = 8, .width = 8};
  const auto open = [&] { open_image_folder(folder.path(), options); };
  expect_error([&] { open_image_folder(folder.path("no"), options); }, {"no such folder"});
  expect_error(open, {"no sub-folders"});
  folder.write("cats/readme.txt", Bytes{'h'});
  expect_error(open, {"cats", "no pictures"});
  folder.write("cats/a.jpg", Bytes{});
  expect_error(open, {"a.jpg", "empty"});
  folder.write("cats/a.jpg", Bytes{'B', 'M', 'I', ',', 'a', 'g', 'e'});
  expect_error(open, {"a.jpg", "no JPEG, PNG, WebP, GIF, BMP or TIFF file"});
  folder.write("cats/a.jpg", png_of(plain(4, 4, 1, 2, 3)));
  EXPECT_NO_THROW(open());
  expect_error([&] { open_image_folder(folder.path(), {.height = 0, .width = 8}); }, {"0 x 8"});
  expect_error([&] { open_image_folder(folder.path(), {.channels = 4}); }, {"not 4"});
}

TEST(ImageFolder, NamesDamagedImagesWhenRead) {
  const TempFolder folder;
  Image noisy = plain(64, 64, 0, 0, 0);
  for (size_t i = 0; i < noisy.pixels.size(); ++i) noisy.pixels[i] = static_cast<uint8_t>(i * i * 7 + i / 3);
  for (const bool jpeg : {true, false}) {
    const Bytes whole = jpeg ? jpeg_of(noisy) : png_of(noisy);
    for (const size_t kept : {size_t{12}, whole.size() / 2, whole.size() - 30}) {
      folder.write("cats/a.png", {whole.data(), kept});
      const DatasetPtr data = open_image_folder(folder.path(), {.height = 8, .width = 8}, false);
      expect_error([&] { read(*data, 0); }, {"a.png", jpeg ? "JPEG" : "PNG", "cut off"});
    }
  }
}

TEST(ImageFolder, RejectsDamagedHeadersWhenOpened) {
  const TempFolder folder;
  const auto open = [&] { open_image_folder(folder.path(), {.height = 8, .width = 8}); };
  const Bytes png = png_of(plain(4, 4, 1, 2, 3));
  folder.write("cats/a.png", {png.data(), 20});
  expect_error(open, {"a.png", "PNG", "cut off within its header"});
  Bytes without_size = png;
  without_size[12] = 'X';
  folder.write("cats/a.png", without_size);
  expect_error(open, {"a.png", "PNG", "does not begin with its size"});
  Bytes empty = png;
  empty[19] = 0;
  folder.write("cats/a.png", empty);
  expect_error(open, {"a.png", "0 x 4"});

  const Bytes jpeg = jpeg_of(plain(4, 4, 1, 2, 3));
  folder.write("cats/a.png", {jpeg.data(), 12});
  expect_error(open, {"a.png", "JPEG", "cut off within its header"});
  folder.write("cats/a.png", Bytes{0xff, 0xd8, 0xff, 0xd9});
  expect_error(open, {"a.png", "JPEG", "its size is missing"});
  folder.write("cats/a.png", Bytes{0xff, 0xd8, 0xff, 0xe0, 0, 1});
  expect_error(open, {"a.png", "JPEG", "no length"});
  Bytes commented = {0xff, 0xd8, 0xff, 0xff, 0xfe, 0, 4, 0xff, 0xd9};  // a comment that looks like an end
  commented.insert(commented.end(), jpeg.begin() + 2, jpeg.end());
  folder.write("cats/a.png", commented);
  EXPECT_NO_THROW(open());
}

TEST(ImageFolder, ChecksHeadersWithSeveralThreadsAndCountsTheDamagedOnes) {
  const TempFolder folder;
  const Bytes png = png_of(plain(4, 4, 1, 2, 3));
  for (int i = 0; i < 100; ++i)
    folder.write(fmt::format("cats/{:03}.png", i), {png.data(), i % 40 == 7 ? 20 : png.size()});
  const PictureListing with_threads{.reading = {.threads = 4}};
  const auto list = [&] { list_pictures(folder.path(), with_threads); };
  expect_error(list, {"007.png: is a PNG file that is damaged", "; 3 of the 100 pictures in "});
  const PictureListPtr sizes = list_pictures(folder.path(), {.check_headers = false});
  EXPECT_EQ(sizes->classes, std::vector<std::string>{"cats"});
  ASSERT_EQ(sizes->files.size(), 100U);
  EXPECT_EQ(sizes->files[7].bytes, 20U);
  EXPECT_EQ(sizes->files[8].bytes, png.size());
}

TEST(ImageFolder, AFileThatCannotBeReadIsNoDamagedImage) {
  const TempFolder folder;
  folder.write("cats/a.png", png_of(plain(4, 4, 1, 2, 3)));
  const DatasetPtr data = open_image_folder(folder.path(), {.height = 8, .width = 8});
  std::filesystem::remove(folder.path("cats/a.png"));
  expect_error([&] { read(*data, 0); }, {"a.png: was listed in its folder", "No such file"},
               Error::Kind::run);
  expect_error([&] { unreadable_samples(*data, {}); }, {"a.png", "No such file"}, Error::Kind::run);
  // Reading this file fails with EIO, as on a disk that fails.
  std::filesystem::create_symlink("/proc/self/mem", folder.path("cats/a.png"));
  expect_error([&] { read(*data, 0); }, {"a.png", "Input/output error"}, Error::Kind::run);
  expect_error([&] { list_pictures(folder.path()); }, {"a.png", "Input/output error"}, Error::Kind::run);
}

TEST(ImageFolder, CountsTheFilesThatItIgnores) {
  const TempFolder folder;
  for (const char* name :
       {"cats/a.heic", "cats/b.heic", "dogs/notes.txt", "dogs/more/x.jpg", "README", "cats/.git"})
    folder.write(name, Bytes{'x'});
  folder.write("dogs/a.jpg", jpeg_of(plain(4, 4, 1, 2, 3)));
  std::filesystem::create_symlink("/nowhere/a.jpg", folder.path("cats/c.jpg"));
  const IgnoredFiles ignored = ignored_files(folder.path());
  EXPECT_EQ(ignored.kinds, (std::map<std::string, int64_t>{
                               {".txt", 1}, {".heic", 2}, {"folders", 1}, {"without extension", 1}}));
  EXPECT_EQ(dangling_text(ignored.links),
            fmt::format("1 link leads to nothing ({})", folder.path("cats/c.jpg")));
  expect_error([&] { list_pictures(folder.path()); },
               {"no pictures", "1 link leads to nothing", "cats/c.jpg"});
}

TEST(ImageFolder, RejectsAnImageOfImpossibleSize) {
  const TempFolder folder;
  Bytes bytes = png_of(plain(4, 4, 1, 2, 3));
  for (const size_t at : {16U, 20U}) bytes[at] = 0x40;  // width and height become 2^30 + 4
  expect_error([&] { decode_png(bytes, {}, "HUGE"); }, {"HUGE"});
  Bytes jpeg = jpeg_of(plain(16, 16, 1, 2, 3));
  for (size_t i = 0; i + 8 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0) {  // SOF0: height, width at +5
      for (const size_t at : {5U, 6U, 7U, 8U}) jpeg[i + at] = 0xf0;
    }
  }
  expect_error([&] { decode_jpeg(jpeg, {}, "HUGE"); }, {"HUGE", "61680 x 61680"});
}

}  // namespace
}  // namespace telar::test
