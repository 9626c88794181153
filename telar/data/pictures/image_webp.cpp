#include <webp/decode.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "telar/data/pictures/image.h"

namespace telar {
namespace {

constexpr size_t kRiffHeader = 12;  // "RIFF", size, "WEBP"
constexpr size_t kChunkHeader = 8;  // kind, size

uint64_t webp_number(std::span<const uint8_t> bytes, size_t at, size_t size) {
  uint64_t number = 0;
  for (size_t i = 0; i < size; ++i) number |= uint64_t{bytes[at + i]} << (8 * i);
  return number;
}

/// A part of a WebP file: pixels, metadata, or a frame, which has such parts itself.
struct WebpChunk {
  std::string_view kind;
  std::span<const uint8_t> content;
};

std::vector<WebpChunk> webp_chunks(std::span<const uint8_t> file, const std::string& name) {
  const uint64_t size = file.size() < kRiffHeader ? 0 : 8 + webp_number(file, 4, 4);
  if (size < kRiffHeader || size > file.size()) throw damaged_picture(name, "WebP", "it ends too early");
  std::span<const uint8_t> rest = file.first(size).subspan(kRiffHeader);
  std::vector<WebpChunk> chunks;
  while (!rest.empty()) {
    const size_t length = rest.size() < kChunkHeader ? 0 : webp_number(rest, 4, 4);
    if (rest.size() < kChunkHeader || length > rest.size() - kChunkHeader)
      throw damaged_picture(name, "WebP", "a part of it is longer than the file");
    chunks.push_back({{reinterpret_cast<const char*>(rest.data()), 4}, rest.subspan(kChunkHeader, length)});
    rest = rest.subspan(std::min(rest.size(), kChunkHeader + length + length % 2));
  }
  return chunks;
}

/// The first frame of an animation, which covers a part of the canvas or all of it.
struct WebpFrame {
  std::span<const uint8_t> pixels;  ///< with chunk header
  uint64_t left = 0;
  uint64_t top = 0;
  uint64_t canvas_width = 0;  ///< 0: that of the frame
  uint64_t canvas_height = 0;
};

WebpFrame first_frame(const std::vector<WebpChunk>& chunks, const std::string& name) {
  constexpr size_t kFrameHeader = 16;
  const std::span<const uint8_t> canvas = chunks.front().content;
  const auto found = std::ranges::find(chunks, "ANMF", &WebpChunk::kind);
  if (found == chunks.end() || found->content.size() < kFrameHeader || canvas.size() < 10)
    throw damaged_picture(name, "WebP", "its first frame is missing");
  const std::span<const uint8_t> frame = found->content;
  return {frame.subspan(kFrameHeader), 2 * webp_number(frame, 0, 3), 2 * webp_number(frame, 3, 3),
          webp_number(canvas, 4, 3) + 1, webp_number(canvas, 7, 3) + 1};
}

bool is_animation(const WebpChunk& first) {
  return first.kind == "VP8X" && !first.content.empty() && (first.content[0] & 2U) != 0;
}

const char* webp_error(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return "there is not enough memory for it";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "it has a feature that libwebp does not know";
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return "it ends too early";
    default: return "its pixels cannot be decoded";
  }
}

/// The picture with the frame in it; black where there is none.
Image decode_frame(const WebpFrame& frame, const std::string& name) {
  WebPDecoderConfig config;
  WebPInitDecoderConfig(&config);
  VP8StatusCode status = WebPGetFeatures(frame.pixels.data(), frame.pixels.size(), &config.input);
  if (status != VP8_STATUS_OK) throw damaged_picture(name, "WebP", webp_error(status));
  const auto width = static_cast<uint64_t>(config.input.width);
  const auto height = static_cast<uint64_t>(config.input.height);
  const uint64_t across = frame.canvas_width == 0 ? width : frame.canvas_width;
  const uint64_t down = frame.canvas_height == 0 ? height : frame.canvas_height;
  check_image_size(across, down, name);
  if (frame.left + width > across || frame.top + height > down)
    throw damaged_picture(name, "WebP", "its first frame is not within the picture");
  Image image{static_cast<int64_t>(down), static_cast<int64_t>(across), 3, Bytes(across * down * 3)};
  const size_t begin = (frame.top * across + frame.left) * 3;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = image.pixels.data() + begin,
                          .stride = static_cast<int>(across * 3),
                          .size = image.pixels.size() - begin};
  status = WebPDecode(frame.pixels.data(), frame.pixels.size(), &config);
  if (status != VP8_STATUS_OK) throw damaged_picture(name, "WebP", webp_error(status));
  return image;
}

}  // namespace

void check_webp_header(std::span<const uint8_t> head, const std::string& name) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(head.data(), head.size(), &features);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) throw damaged_picture(name, "WebP", "cut off within its header");
  if (status != VP8_STATUS_OK) throw damaged_picture(name, "WebP", "its header cannot be decoded");
  check_image_size(static_cast<uint64_t>(features.width), static_cast<uint64_t>(features.height), name);
}

Image decode_webp(std::span<const uint8_t> file, const std::string& name) {
  const std::vector<WebpChunk> chunks = webp_chunks(file, name);
  if (chunks.empty()) throw damaged_picture(name, "WebP", "it has no content");
  Image image =
      decode_frame(is_animation(chunks.front()) ? first_frame(chunks, name) : WebpFrame{file}, name);
  const auto exif = std::ranges::find(chunks, "EXIF", &WebpChunk::kind);
  if (exif != chunks.end() && chunks.front().kind == "VP8X")
    image.orientation = exif_orientation(exif->content);
  return image;
}

}  // namespace telar
