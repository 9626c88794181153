#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "telar/core/error.h"
#include "telar/data/arrays/npy.h"

namespace telar {
namespace {

constexpr std::array<std::string_view, 5> kTypes = {"f4", "f8", "u1", "i4", "i8"};

/// The Python dictionary in the header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. The keys
/// may come in any order; nothing else is accepted.
class Dictionary {
 public:
  Dictionary(std::string_view text, size_t base, const std::string& name)
      : text_(text), base_(base), name_(name) {}

  void parse() {
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        descr = quoted();
      } else if (key == "fortran_order") {
        fortran = boolean();
      } else if (key == "shape") {
        tuple();
      } else {
        fail("one of 'descr', 'fortran_order' and 'shape'");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("the end of the header");
    if (descr.empty() || !has_shape) fail("'descr' and 'shape' before it");
  }

  std::string_view descr;
  bool fortran = false;
  bool has_shape = false;
  std::vector<int64_t> shape;

 private:
  [[noreturn]] void fail(std::string_view wanted) const {
    throw user_error("{}: its npy header is invalid at offset {}: expected {}", name_, base_ + at_, wanted);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char wanted) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) fail(std::string_view(&wanted, 1));
  }
  std::string_view quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("a string in quotes (structured types are not supported)");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a closing quote");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail("True or False");
  }
  void tuple() {
    expect('(');
    has_shape = true;
    shape.clear();
    while (!take(')')) {
      skip_space();
      int64_t extent = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) fail("an extent");
      at_ += static_cast<size_t>(end - begin);
      shape.push_back(extent);
      if (!take(',')) {
        expect(')');
        return;
      }
    }
  }

  std::string_view text_;
  size_t base_;
  size_t at_ = 0;
  const std::string& name_;
};

}  // namespace

NpyHeader parse_npy(std::span<const uint8_t> bytes, uint64_t file_bytes, const std::string& name) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    throw user_error("{}: is not an npy file: it does not begin with \\x93NUMPY and a version", name);
  }
  const int version = bytes[6];
  if (version < 1 || version > 3) {
    throw user_error("{}: npy version {}.{} (offset 6) is not supported; versions 1, 2 and 3 are", name,
                     version, bytes[7]);
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t base = 8 + length_bytes;
  size_t length = 0;
  for (size_t i = std::min(base, bytes.size()); i > 8; --i) length = length << 8U | bytes[i - 1];
  if (file_bytes < base || file_bytes - base < length) {
    throw user_error("{}: is cut off at offset {}, within its header", name, file_bytes);
  }
  if (bytes.size() - base < length) {
    throw user_error("{}: its header has {} bytes; at most {} are supported", name, base + length,
                     kNpyHeaderBytes);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + base, length);
  Dictionary dictionary(text, base, name);
  dictionary.parse();

  const std::string_view type =
      dictionary.descr.size() == 3 ? dictionary.descr.substr(1) : std::string_view();
  const bool order_ok = dictionary.descr[0] == '<' || (dictionary.descr[0] == '|' && type == "u1");
  if (!order_ok || std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
    throw user_error("{}: has elements of type '{}'; '<f4', '<f8', '|u1', '<i4' and '<i8' are supported",
                     name, dictionary.descr);
  }
  if (dictionary.fortran) {
    throw user_error("{}: is in Fortran order; save numpy.ascontiguousarray(x) instead", name);
  }
  Shape shape(dictionary.shape);
  dictionary.shape.push_back(type[1] - '0');
  const auto wanted = product_within_int64(dictionary.shape);
  if (!wanted) {
    throw user_error("{}: its shape is {}, more elements than any file can hold", name, shape.str());
  }
  if (shape.rank() == 0 || *wanted == 0) {
    throw user_error("{}: its shape is {}, which holds no samples; [N, …] is needed", name, shape.str());
  }
  const uint64_t held = file_bytes - base - length;
  if (held != static_cast<uint64_t>(*wanted)) {
    throw user_error("{}: its shape {} of {} needs {} bytes after offset {}, but there are {}", name,
                     shape.str(), type, *wanted, base + length, held);
  }
  return {std::string(type), std::move(shape), base + length};
}

}  // namespace telar
