#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "telar/data/pictures/image.h"
#include "telar/data/pictures/image_tags.h"
#include "telar/data/pictures/tiff/library.h"

namespace telar {
namespace {

/// A TIFF file in memory, and what libtiff says of it.
struct TiffSource {
  std::span<const uint8_t> file;
  uint64_t at = 0;
  bool decoding = false;  ///< warnings say that pixels are lost
  std::array<char, 512> message{};
};

tmsize_t read_tiff(thandle_t handle, void* to, tmsize_t size) {
  auto* source = static_cast<TiffSource*>(handle);
  const uint64_t left = source->file.size() - std::min<uint64_t>(source->at, source->file.size());
  const auto count = std::min(left, static_cast<uint64_t>(size));
  if (count > 0) std::memcpy(to, source->file.data() + source->at, count);
  source->at += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t write_nothing(thandle_t /*handle*/, void* /*from*/, tmsize_t /*size*/) { return -1; }

toff_t seek_tiff(thandle_t handle, toff_t offset, int from) {
  auto* source = static_cast<TiffSource*>(handle);
  source->at = offset + (from == SEEK_CUR ? source->at : from == SEEK_END ? source->file.size() : 0);
  return source->at;
}

int close_tiff(thandle_t /*handle*/) { return 0; }

toff_t tiff_bytes(thandle_t handle) { return static_cast<TiffSource*>(handle)->file.size(); }

/// libtiff reads from there; it takes a pointer to what is not const, but does not write.
int map_tiff(thandle_t handle, void** begin, toff_t* size) {
  auto* source = static_cast<TiffSource*>(handle);
  *begin = const_cast<uint8_t*>(source->file.data());
  *size = source->file.size();
  return 1;
}

void unmap_tiff(thandle_t /*handle*/, void* /*begin*/, toff_t /*size*/) {}

/// Keeps the first message. 1: libtiff does not print it.
int keep_message(TiffSource& source, const char* format, va_list values) {
  if (source.message[0] == '\0')
    static_cast<void>(std::vsnprintf(source.message.data(), source.message.size(), format, values));
  return 1;
}

int on_tiff_error(TIFF* /*tiff*/, void* source, const char* /*module*/, const char* format, va_list values) {
  return keep_message(*static_cast<TiffSource*>(source), format, values);
}

/// Those about the tags of a file have no effect on its pixels.
int on_tiff_warning(TIFF* /*tiff*/, void* source, const char* /*module*/, const char* format,
                    va_list values) {
  auto* file = static_cast<TiffSource*>(source);
  return file->decoding ? keep_message(*file, format, values) : 1;
}

/// A TIFF file that libtiff has open.
class TiffFile {
 public:
  TiffFile(const TiffLibrary& library, TiffSource& source, const std::string& name)
      : library_(library), tiff_(opened(source, name), library.close) {
    if (tiff_ == nullptr) throw damaged_picture(name, "TIFF", source.message.data());
  }

  TIFF* tiff() const { return tiff_.get(); }

  template <typename Number>
  Number field(uint32_t tag) const {
    Number value = 0;
    library_.get_field(tiff_.get(), tag, &value);
    return value;
  }

  /// Whether the colours are multiplied with alpha in the file. libtiff would multiply them in other files:
  /// it is told that they are already.
  bool take_alpha() const {
    uint16_t count = 0;
    uint16_t* kinds = nullptr;
    if (library_.get_field(tiff_.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1 || count == 0)
      return false;
    if (kinds[0] == EXTRASAMPLE_ASSOCALPHA) return true;
    std::vector<uint16_t> raw(kinds, kinds + count);
    raw[0] = EXTRASAMPLE_ASSOCALPHA;
    library_.set_field(tiff_.get(), TIFFTAG_EXTRASAMPLES, count, raw.data());
    return false;
  }

 private:
  TIFF* opened(TiffSource& source, const std::string& name) const {
    constexpr tmsize_t kMostMemory = tmsize_t{1} << 30U;  // the largest picture has as much
    const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(library_.new_options(),
                                                                                   library_.free_options);
    if (options == nullptr) throw std::bad_alloc();
    library_.set_most_memory(options.get(), kMostMemory);
    library_.set_error_handler(options.get(), on_tiff_error, &source);
    library_.set_warning_handler(options.get(), on_tiff_warning, &source);
    return library_.open(name.c_str(), "r", &source, read_tiff, write_nothing, seek_tiff, close_tiff,
                         tiff_bytes, map_tiff, unmap_tiff, options.get());
  }

  const TiffLibrary& library_;
  std::unique_ptr<TIFF, decltype(&TIFFClose)> tiff_;
};

/// libtiff makes red, green and blue of CIE L*a*b* for another white than sRGB's, so that grey is yellow.
bool is_of_lab(uint16_t photometric) {
  return photometric == PHOTOMETRIC_CIELAB || photometric == PHOTOMETRIC_ICCLAB ||
         photometric == PHOTOMETRIC_ITULAB || photometric == PHOTOMETRIC_LOGL ||
         photometric == PHOTOMETRIC_LOGLUV;
}

/// Red, green and blue of libtiff's pixels, in the same memory.
void drop_alpha(Bytes& pixels, bool multiplied) {
  uint8_t* to = pixels.data();
  for (size_t at = 0; at < pixels.size(); at += 4) {
    uint32_t pixel = 0;
    std::memcpy(&pixel, pixels.data() + at, 4);
    const uint32_t alpha = multiplied ? TIFFGetA(pixel) : 255;
    for (const uint32_t light : {TIFFGetR(pixel), TIFFGetG(pixel), TIFFGetB(pixel)})
      *to++ = static_cast<uint8_t>(alpha == 0 ? 0 : std::min(light * 255 / alpha, 255U));
  }
  pixels.resize(pixels.size() / 4 * 3);
}

/// Grey of 16 bits, and perhaps alpha, to libtiff's pixels. Its own function cuts them off, and reads wrong
/// values from tiles that are wider than the picture (libtiff 4.5.0).
void put_grey_16(TIFFRGBAImage* image, uint32_t* to, uint32_t /*x*/, uint32_t /*y*/, uint32_t width,
                 uint32_t height, int32_t from_skip, int32_t to_skip, unsigned char* from) {
  const auto sample = [](const unsigned char* at) {
    uint16_t value = 0;
    std::memcpy(&value, at, 2);
    return (value + 128U) / 257U;
  };
  const std::ptrdiff_t step = 2 * std::ptrdiff_t{image->samplesperpixel};
  const uint32_t inverted = image->photometric == PHOTOMETRIC_MINISWHITE ? 255 : 0;
  for (uint32_t y = 0; y < height; ++y, to += to_skip, from += from_skip * step) {
    for (uint32_t x = 0; x < width; ++x, from += step)
      *to++ = (sample(from) ^ inverted) * 0x010101U | (step > 2 ? sample(from + 2) : 255U) << 24U;
  }
}

/// The pixels as they are stored, in rows from the first one.
class TiffPixels {
 public:
  TiffPixels(const TiffLibrary& library, TIFF* tiff, TiffSource& source, const std::string& name)
      : library_(library), source_(source), name_(name) {
    std::array<char, 1024> reason{};
    if (library.can_read_pixels(tiff, reason.data()) == 0 ||
        library.begin_pixels(&image_, tiff, 1, reason.data()) == 0)
      throw unsupported_picture(name, "TIFF", reason.data());
    image_.req_orientation = image_.orientation;
    const bool grey =
        image_.photometric == PHOTOMETRIC_MINISBLACK || image_.photometric == PHOTOMETRIC_MINISWHITE;
    if (grey && image_.bitspersample == 16 && image_.isContig != 0) image_.put.contig = put_grey_16;
  }
  ~TiffPixels() { library_.end_pixels(&image_); }
  TiffPixels(const TiffPixels&) = delete;
  TiffPixels& operator=(const TiffPixels&) = delete;

  void read(Bytes& pixels) {
    source_.decoding = true;
    source_.message[0] = '\0';
    const int read =
        library_.get_pixels(&image_, reinterpret_cast<uint32_t*>(pixels.data()), image_.width, image_.height);
    if (read == 0 || source_.message[0] != '\0') throw damaged_picture(name_, "TIFF", source_.message.data());
  }

 private:
  const TiffLibrary& library_;
  TiffSource& source_;
  const std::string& name_;
  TIFFRGBAImage image_{};
};

}  // namespace

Image decode_tiff(std::span<const uint8_t> file, const std::string& name) {
  const TiffLibrary& library = tiff_library(name);
  TiffSource source{.file = file};
  const TiffFile tiff(library, source, name);
  const auto width = tiff.field<uint32_t>(TIFFTAG_IMAGEWIDTH);
  const auto height = tiff.field<uint32_t>(TIFFTAG_IMAGELENGTH);
  check_image_size(width, height, name);
  if (tiff.field<uint16_t>(TIFFTAG_SAMPLEFORMAT) == SAMPLEFORMAT_INT)
    throw unsupported_picture(name, "TIFF", "its samples are signed");
  if (is_of_lab(tiff.field<uint16_t>(TIFFTAG_PHOTOMETRIC)))
    throw unsupported_picture(name, "TIFF", "its colours are CIE L*a*b* or LogLuv");
  // libtiff takes the numbers of colours for greys if it finds no table.
  if (tiff_tag(file, TIFFTAG_PHOTOMETRIC) == PHOTOMETRIC_PALETTE &&
      tiff.field<uint16_t>(TIFFTAG_PHOTOMETRIC) != PHOTOMETRIC_PALETTE)
    throw damaged_picture(name, "TIFF", "its table of colours is missing");
  const bool multiplied = tiff.take_alpha();
  Image image{height, width, 3, Bytes(size_t{4} * width * height)};
  TiffPixels(library, tiff.tiff(), source, name).read(image.pixels);
  drop_alpha(image.pixels, multiplied);
  const auto orientation = tiff.field<uint16_t>(TIFFTAG_ORIENTATION);
  image.orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
  return image;
}

}  // namespace telar
