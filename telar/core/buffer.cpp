#include "telar/core/buffer.h"

#include <cstdlib>
#include <cstring>

#include "telar/core/error.h"

namespace telar {

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, align_up(bytes))));
  if (!data_)
    throw run_error("not enough memory: {:.1f} MiB wanted; a smaller batch needs less", bytes / 1048576.0);
  std::memset(data_.get(), 0, bytes);
}

void Buffer::Free::operator()(std::byte* memory) const { std::free(memory); }

}  // namespace telar
