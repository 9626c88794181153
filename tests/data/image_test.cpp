#include "telar/data/pictures/image.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/support.h"
#include "support/pictures.h"

namespace telar::test {
namespace {

Bytes hex_bytes(const std::string& text) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// tests/fixtures/data/make_pictures.py.
nlohmann::json pictures() {
  std::ifstream file(fixture("pictures.json"));
  return nlohmann::json::parse(file);
}

Image one_colour(int64_t height, int64_t width, uint8_t red, uint8_t green, uint8_t blue) {
  Image image{height, width, 3, {}};
  for (int64_t i = 0; i < height * width; ++i) image.pixels.insert(image.pixels.end(), {red, green, blue});
  return image;
}

Image noise_of(int64_t size) {
  Image image = one_colour(size, size, 0, 0, 0);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * i * 7 + i / 3);
  return image;
}

TEST(Pictures, HaveThePixelsThatPillowReads) {
  const nlohmann::json all = pictures();
  ASSERT_GT(all.size(), 35U);
  for (const auto& [name, picture] : all.items()) {
    const Bytes file = hex_bytes(picture["file"]);
    for (const int64_t channels : {1, 3}) {
      const Image image = decode_image(file, {.channels = channels}, name);
      const Bytes right = hex_bytes(picture[channels == 1 ? "grey" : "rgb"]);
      EXPECT_EQ(image.width, picture["width"].get<int64_t>()) << name;
      EXPECT_EQ(image.height, picture["height"].get<int64_t>()) << name;
      EXPECT_EQ(image.channels, channels) << name;
      ASSERT_EQ(image.pixels.size(), right.size()) << name;
      const bool grey_of_16_bits = name.starts_with("grey_16") || name == "grey_alpha_16.png";
      const int most = grey_of_16_bits ? 0 : 1;  // it is scaled by one rule, and rounded to the nearest
      for (size_t i = 0; i < right.size(); ++i)
        ASSERT_LE(std::abs(image.pixels[i] - right[i]), most) << name << ", " << channels << ", byte " << i;
    }
  }
}

std::string format_of(const std::string& name) {
  const std::map<std::string, std::string> formats = {{"png", "PNG"}, {"jpeg", "JPEG"}, {"webp", "WebP"},
                                                      {"gif", "GIF"}, {"bmp", "BMP"},   {"tiff", "TIFF"}};
  return formats.at(name.substr(name.find('.') + 1));
}

TEST(Pictures, AreRefusedWhereverTheyAreCutOff) {
  const nlohmann::json all = pictures();
  for (const auto& [name, picture] : all.items()) {
    const Bytes file = hex_bytes(picture["file"]);
    std::istringstream whole(std::string(file.begin(), file.end()));
    EXPECT_NO_THROW(check_image_header(whole, name));
    size_t refused = 0;
    for (size_t kept = 20; kept < file.size(); ++kept) {
      try {
        decode_image(std::span(file).first(kept), {}, name);
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.kind(), Error::Kind::user);
        EXPECT_TRUE(says(error.what(), "is a " + format_of(name) + " file") ||
                    says(error.what(), "its header says"))
            << error.what();
      }
      std::istringstream stream(std::string(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(kept)));
      try {
        check_image_header(stream, name);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::user);
      }
    }
    // What is behind the pixels may be missing: the end of a GIF file, the filling of a BMP file.
    const bool has_others = name == "animation.gif" || name == "pages.tiff";
    EXPECT_GE(refused + (has_others ? file.size() / 3 * 2 : 8), file.size() - 20) << name;
  }
}

/// A fixture with other bytes behind the first `mark`.
Bytes changed(const std::string& name, const Bytes& mark, const Bytes& bytes) {
  Bytes file = hex_bytes(pictures()[name]["file"]);
  const auto found = std::search(file.begin(), file.end(), mark.begin(), mark.end());
  EXPECT_NE(found, file.end()) << name;
  std::ranges::copy(bytes, found + static_cast<std::ptrdiff_t>(mark.size()));
  return file;
}

TEST(Pictures, OfImpossibleSizeAreRefusedBeforeTheyAreDecoded) {
  const Bytes huge = {0xff, 0xff, 0xff, 0x3f};
  const std::vector<std::pair<std::string, Bytes>> files = {
      {"BMP", changed("24.bmp", {40, 0, 0, 0}, huge)},
      {"BMP", changed("24.bmp", {40, 0, 0, 0, 7, 0, 0, 0}, {0, 0, 0, 0x80})},
      {"GIF", changed("part.gif", {'a'}, {0xff, 0xff, 0xff, 0xff})},
      {"WebP", changed("part.webp", {'V', 'P', '8', 'X', 10, 0, 0, 0, 0x12, 0, 0, 0},
                       {0xff, 0x7f, 0, 0xff, 0x7f, 0})},
      {"TIFF", changed("strips.tiff", {0, 1, 4, 0, 1, 0, 0, 0}, huge)}};
  for (const auto& [name, file] : files) {
    expect_error([&] { decode_image(file, {}, name); }, {name + ": its header says"});
    std::istringstream stream(std::string(file.begin(), file.end()));
    expect_error([&] { check_image_header(stream, name); }, {name + ": its header says"});
  }
}

TEST(Pictures, OfKindsThatCannotBeReadAreNotCalledDamaged) {
  const auto refused = [](const Bytes& file, const char* why) {
    expect_error([&] { decode_image(file, {}, "it"); },
                 {"it: is a ", " file of a kind that cannot be read: ", why});
  };
  refused(changed("24.bmp", {24, 0}, {4}), "24 bits a pixel, compression 4");
  refused(changed("16_565.bmp", {0, 0xf8, 0, 0}, {0xe1, 7}), "not side by side");
  refused(changed("24.bmp", {26 + 28, 0, 0, 0}, {77}), "a header of 77 bytes");
  refused(changed("grey_16.tiff", {2, 1, 3, 0, 1, 0, 0, 0}, {12}), "12");
  refused(changed("rgb_packbits.tiff", {6, 1, 3, 0, 1, 0, 0, 0}, {8}), "its colours are CIE L*a*b*");
}

TEST(Pictures, StayAsTheyAreStoredIfTheJobSaysSo) {
  const nlohmann::json all = pictures();
  for (const char* ending : {"png", "jpeg"}) {
    const auto stored = [&](int orientation) {
      const Bytes file = hex_bytes(all[fmt::format("turned_{}.{}", orientation, ending)]["file"]);
      return decode_image(file, {.upright = false}, ending);
    };
    EXPECT_EQ(stored(6).width, 7);
    EXPECT_EQ(stored(6).pixels, stored(1).pixels);
  }
}

TEST(Pictures, DamagedExifMeansUpright) {
  const nlohmann::json all = pictures();
  const Bytes file = hex_bytes(all["turned_6.png"]["file"]);
  const std::string_view mark("II*\0", 4);
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const Bytes exif(file.begin() + static_cast<std::ptrdiff_t>(text.find(mark)), file.end() - 16);
  EXPECT_EQ(exif_orientation(exif), 6);
  EXPECT_EQ(exif_orientation({}), 1);
  for (const size_t kept : {3U, 4U, 7U, 9U, 20U, 30U})
    EXPECT_EQ(exif_orientation(std::span(exif).first(kept)), 1) << kept;
  Bytes far = exif;
  far[7] = 0xff;  // the directory begins behind the end
  EXPECT_EQ(exif_orientation(far), 1);
}

/// How often libjpeg itself warns; negative: it gives up.
int64_t warnings_of_libjpeg(const Bytes& file) {
  struct Errors {
    jpeg_error_mgr base;
    std::jmp_buf failed;
  } errors{};
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&errors.base);
  errors.base.emit_message = [](j_common_ptr common, int level) {
    if (level < 0) ++common->err->num_warnings;
  };
  errors.base.error_exit = [](j_common_ptr common) {
    std::longjmp(reinterpret_cast<Errors*>(common->err)->failed, 1);
  };
  if (setjmp(errors.failed) != 0) {
    jpeg_destroy_decompress(&info);
    return -1;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  std::array<uint8_t, 1024> line{};
  uint8_t* row = line.data();
  while (info.output_scanline < info.output_height) jpeg_read_scanlines(&info, &row, 1);
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return errors.base.num_warnings;
}

TEST(Pictures, AJpegIsDamagedIfLibjpegWarnsOfLostData) {
  const Bytes whole = jpeg_of(noise_of(64));
  ASSERT_EQ(warnings_of_libjpeg(whole), 0);
  const size_t pixels = whole.size() / 4;  // behind the tables
  int64_t with_warnings = 0;
  int64_t without_end = 0;
  for (size_t i = 0; i < 300; ++i) {
    Bytes file = whole;
    const size_t at = pixels + i * (whole.size() - pixels) / 300;
    if (i % 3 == 0) file[at] ^= static_cast<uint8_t>(1U << (i % 8));
    if (i % 3 == 1)
      file.erase(file.begin() + static_cast<std::ptrdiff_t>(at),
                 file.begin() + static_cast<std::ptrdiff_t>(std::min(at + 40, file.size())));
    if (i % 3 == 2)
      std::fill(file.begin() + static_cast<std::ptrdiff_t>(at),
                file.begin() + static_cast<std::ptrdiff_t>(std::min(at + 20, file.size())), 0xff);
    const int64_t warnings = warnings_of_libjpeg(file);
    if (warnings == 0) {
      EXPECT_NO_THROW(decode_image(file, {}, "a.jpg")) << i;
      continue;
    }
    ++with_warnings;
    expect_error([&] { decode_image(file, {}, "a.jpg"); }, {"a.jpg", "JPEG", "damaged or cut off"});
    try {
      decode_image(file, {.rules = 1}, "a.jpg");
    } catch (const Error&) {
      ++without_end;
    }
  }
  EXPECT_GT(with_warnings, 150);
  EXPECT_LT(without_end, with_warnings);  // what runs by rules 1 have trained on
}

Bytes jpeg_of_inks(const Bytes& cmyk, int side, J_COLOR_SPACE stored) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = info.image_height = static_cast<JDIMENSION>(side);
  info.input_components = 4;
  info.in_color_space = JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, stored);
  jpeg_set_quality(&info, 95, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < side; ++y) {
    auto* row = const_cast<JSAMPLE*>(cmyk.data() + y * side * 4);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes bytes(memory, memory + size);
  std::free(memory);
  return bytes;
}

TEST(Pictures, InksBecomeLight) {
  Bytes cmyk;
  for (int i = 0; i < 64; ++i) cmyk.insert(cmyk.end(), {200, 100, 50, 128});
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    const Image image = decode_image(jpeg_of_inks(cmyk, 8, stored), {}, "inks.jpg");
    EXPECT_NEAR(image.pixels[0], 200 * 128 / 255, 2);
    EXPECT_NEAR(image.pixels[1], 100 * 128 / 255, 2);
    EXPECT_NEAR(image.pixels[2], 50 * 128 / 255, 2);
  }
}

TEST(Pictures, AKindOfJpegThatCannotBeReadIsNotCalledDamaged) {
  Bytes file = jpeg_of(one_colour(16, 16, 1, 2, 3));
  const Bytes frame = {0xff, 0xc0, 0, 17};
  const auto found = std::search(file.begin(), file.end(), frame.begin(), frame.end());
  ASSERT_NE(found, file.end());
  found[4] = 12;  // bits
  expect_error([&] { decode_image(file, {}, "deep.jpg"); },
               {"deep.jpg: is a JPEG file of a kind that cannot be read: ", "precision 12"});
}

TEST(Pictures, OfRunsByRules1AreReadAsBefore) {
  const nlohmann::json all = pictures();
  const auto first = [&](const char* name, int64_t channels) {
    return decode_image(hex_bytes(all[name]["file"]), {.channels = channels, .rules = 1}, name).pixels[0];
  };
  EXPECT_EQ(first("grey_16.png", 1), 186);
  EXPECT_EQ(first("rgba.png", 3), 0);  // transparent white
  EXPECT_EQ(first("gamma.png", 3), 149);
  EXPECT_EQ(first("turned_6.png", 3), first("turned_1.png", 3));
  const Image red = one_colour(16, 16, 255, 0, 0);
  EXPECT_EQ(decode_image(png_of(red), {.channels = 1, .rules = 1}, "red").pixels[0], 126);
  EXPECT_EQ(decode_image(jpeg_of(red), {.channels = 1, .rules = 1}, "red").pixels[0], 76);
  EXPECT_EQ(decode_image(png_of(red), {.channels = 1}, "red").pixels[0], 76);
}

}  // namespace
}  // namespace telar::test
