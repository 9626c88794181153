#pragma once

#include <tiffio.h>

#include <string>

namespace telar {

/// The functions of libtiff that are used. loaded.cpp loads the library when the first TIFF file is met: with
/// the six libraries that it needs, it makes each start of the program 1.5 ms longer. linked.cpp (for a
/// wheel, which must name its libraries) is linked with it instead.
struct TiffLibrary {
  decltype(&TIFFOpenOptionsAlloc) new_options;
  decltype(&TIFFOpenOptionsFree) free_options;
  decltype(&TIFFOpenOptionsSetMaxSingleMemAlloc) set_most_memory;
  decltype(&TIFFOpenOptionsSetErrorHandlerExtR) set_error_handler;
  decltype(&TIFFOpenOptionsSetWarningHandlerExtR) set_warning_handler;
  decltype(&TIFFClientOpenExt) open;
  decltype(&TIFFClose) close;
  decltype(&TIFFGetFieldDefaulted) get_field;
  decltype(&TIFFSetField) set_field;
  decltype(&TIFFRGBAImageOK) can_read_pixels;
  decltype(&TIFFRGBAImageBegin) begin_pixels;
  decltype(&TIFFRGBAImageGet) get_pixels;
  decltype(&TIFFRGBAImageEnd) end_pixels;
};

/// `picture` is the file for which it is needed, for messages. Throws Error (run) if it cannot be loaded.
const TiffLibrary& tiff_library(const std::string& picture);

}  // namespace telar
