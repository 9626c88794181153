#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "fuzz.h"
#include "telar/data/source.h"

/// A file that is only in memory, by name.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : descriptor_(::memfd_create("samples", 0)) {
    if (descriptor_ < 0 || ::write(descriptor_, data, size) != static_cast<ssize_t>(size)) __builtin_trap();
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// The first byte is the number of classes; the rest is a file to train on, and one to predict.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const telar::SourceType& type = telar::source_type("safetensors");
  const MemoryFile file(data + 1, size - 1);
  const telar::Attributes options = telar::completed(
      "source", type.options, {{"path", file.path()}, {"classes", static_cast<int64_t>(data[0] % 4)}});
  telar::fuzz::read_ends([&] { return type.open({.options = options}, telar::Split::train).samples; });
  const telar::Bytes bytes(data + 1, data + size);
  if (!type.inputs.recognises(bytes)) return 0;
  telar::fuzz::read_ends(
      [&] { return type.inputs.open({.path = "input", .bytes = bytes, .features = {2}}, &options); });
  return 0;
}
