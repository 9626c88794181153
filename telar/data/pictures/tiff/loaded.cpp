#include <dlfcn.h>

#include "telar/core/error.h"
#include "telar/data/pictures/tiff/library.h"

namespace telar {
namespace {

constexpr const char* kLibtiff = "libtiff.so.6";

class TiffLoader {
 public:
  explicit TiffLoader(const std::string& picture)
      : picture_(picture), module_(::dlopen(kLibtiff, RTLD_NOW | RTLD_LOCAL)) {
    if (module_ == nullptr) throw missing();
  }

  TiffLibrary library() const {
    TiffLibrary library{};
    find("TIFFOpenOptionsAlloc", library.new_options);
    find("TIFFOpenOptionsFree", library.free_options);
    find("TIFFOpenOptionsSetMaxSingleMemAlloc", library.set_most_memory);
    find("TIFFOpenOptionsSetErrorHandlerExtR", library.set_error_handler);
    find("TIFFOpenOptionsSetWarningHandlerExtR", library.set_warning_handler);
    find("TIFFClientOpenExt", library.open);
    find("TIFFClose", library.close);
    find("TIFFGetFieldDefaulted", library.get_field);
    find("TIFFSetField", library.set_field);
    find("TIFFRGBAImageOK", library.can_read_pixels);
    find("TIFFRGBAImageBegin", library.begin_pixels);
    find("TIFFRGBAImageGet", library.get_pixels);
    find("TIFFRGBAImageEnd", library.end_pixels);
    return library;
  }

 private:
  Error missing() const {
    return run_error(
        "{}: is a TIFF file, but the library that reads them cannot be loaded: {}; install libtiff6",
        picture_, ::dlerror());  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  }

  template <typename Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(::dlsym(module_, name));
    if (function == nullptr) throw missing();
  }

  const std::string& picture_;
  void* module_;  ///< never closed: its functions remain in use
};

}  // namespace

const TiffLibrary& tiff_library(const std::string& picture) {
  static const TiffLibrary kLibrary = TiffLoader(picture).library();
  return kLibrary;
}

}  // namespace telar
