#include "telar/data/pictures/tiff/library.h"

namespace telar {

const TiffLibrary& tiff_library(const std::string& /*picture*/) {
  static constexpr TiffLibrary kLibrary{&TIFFOpenOptionsAlloc,
                                        &TIFFOpenOptionsFree,
                                        &TIFFOpenOptionsSetMaxSingleMemAlloc,
                                        &TIFFOpenOptionsSetErrorHandlerExtR,
                                        &TIFFOpenOptionsSetWarningHandlerExtR,
                                        &TIFFClientOpenExt,
                                        &TIFFClose,
                                        &TIFFGetFieldDefaulted,
                                        &TIFFSetField,
                                        &TIFFRGBAImageOK,
                                        &TIFFRGBAImageBegin,
                                        &TIFFRGBAImageGet,
                                        &TIFFRGBAImageEnd};
  return kLibrary;
}

}  // namespace telar
