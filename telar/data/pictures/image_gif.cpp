#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "telar/data/pictures/image.h"

namespace telar {
namespace {

/// The first picture of a GIF file while giflib reads it.
class GifReader {
 public:
  GifReader(std::span<const uint8_t> file, const std::string& name) : rest_(file), name_(name) {
    int error = 0;
    gif_.reset(DGifOpen(&rest_, next_bytes, &error));
    if (gif_ == nullptr) throw damaged(error);
  }

  Image read() {
    find_picture();
    const GifImageDesc& frame = gif_->Image;
    colours_ = frame.ColorMap != nullptr ? frame.ColorMap : gif_->SColorMap;
    check_image_size(static_cast<uint64_t>(frame.Width), static_cast<uint64_t>(frame.Height), name_);
    Image image = canvas();
    if (!frame.Interlace) {
      read_lines(image, 0, 1);
    } else {
      constexpr std::array<std::array<int, 2>, 4> kPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
      for (const auto& [first, step] : kPasses) read_lines(image, first, step);
    }
    return image;
  }

 private:
  struct Close {
    void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
  };

  static int next_bytes(GifFileType* gif, GifByteType* to, int count) {
    auto& rest = *static_cast<std::span<const uint8_t>*>(gif->UserData);
    const size_t read = std::min(rest.size(), static_cast<size_t>(count));
    std::copy_n(rest.data(), read, to);
    rest = rest.subspan(read);
    return static_cast<int>(read);
  }

  Error damaged(int error) const {
    const char* text = GifErrorString(error);
    return damaged_picture(name_, "GIF", text == nullptr ? "its pixels cannot be decoded" : text);
  }
  void require(int status) const {
    if (status == GIF_ERROR) throw damaged(gif_->Error);
  }

  /// Goes on until behind the header of the first picture.
  void find_picture() {
    for (;;) {
      GifRecordType record = UNDEFINED_RECORD_TYPE;
      require(DGifGetRecordType(gif_.get(), &record));
      if (record == IMAGE_DESC_RECORD_TYPE) return require(DGifGetImageDesc(gif_.get()));
      if (record == TERMINATE_RECORD_TYPE) throw damaged_picture(name_, "GIF", "it has no picture");
      read_extension();
    }
  }

  void read_extension() {
    int kind = 0;
    GifByteType* block = nullptr;
    require(DGifGetExtension(gif_.get(), &kind, &block));
    while (block != nullptr) {
      GraphicsControlBlock control{};
      if (kind == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
        outside_ = std::max(control.TransparentColor, 0);
      require(DGifGetExtensionNext(gif_.get(), &block));
    }
  }

  /// All in the colour of what no frame covers: the transparent one, or the first.
  Image canvas() const {
    const GifImageDesc& frame = gif_->Image;
    const int64_t width = std::max(gif_->SWidth, frame.Left + frame.Width);
    const int64_t height = std::max(gif_->SHeight, frame.Top + frame.Height);
    check_image_size(static_cast<uint64_t>(width), static_cast<uint64_t>(height), name_);
    Image image{height, width, 3, Bytes(static_cast<size_t>(width * height * 3))};
    if (frame.Width == width && frame.Height == height) return image;
    const GifColorType colour = colour_of(outside_);
    for (size_t i = 0; i < image.pixels.size(); i += 3) put(colour, image.pixels.data() + i);
    return image;
  }

  void read_lines(Image& image, int first, int step) const {
    const GifImageDesc& frame = gif_->Image;
    std::vector<GifPixelType> line(static_cast<size_t>(frame.Width));
    for (int y = first; y < frame.Height; y += step) {
      require(DGifGetLine(gif_.get(), line.data(), frame.Width));
      uint8_t* to = image.pixels.data() + ((frame.Top + y) * image.width + frame.Left) * 3;
      for (const GifPixelType pixel : line) {
        if (colours_ != nullptr && pixel >= colours_->ColorCount)
          throw damaged_picture(name_, "GIF", "a pixel has no colour in its table");
        to = put(colour_of(pixel), to);
      }
    }
  }

  /// Without a table, and behind its end, the number is a grey.
  GifColorType colour_of(int number) const {
    const auto grey = static_cast<GifByteType>(number);
    return colours_ != nullptr && number < colours_->ColorCount ? colours_->Colors[number]
                                                                : GifColorType{grey, grey, grey};
  }

  static uint8_t* put(const GifColorType& colour, uint8_t* to) {
    to[0] = colour.Red;
    to[1] = colour.Green;
    to[2] = colour.Blue;
    return to + 3;
  }

  std::span<const uint8_t> rest_;
  const std::string& name_;
  std::unique_ptr<GifFileType, Close> gif_;
  const ColorMapObject* colours_ = nullptr;
  int outside_ = 0;
};

}  // namespace

Image decode_gif(std::span<const uint8_t> file, const std::string& name) {
  return GifReader(file, name).read();
}

}  // namespace telar
