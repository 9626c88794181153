# The module telar-cuda computes on NVIDIA GPUs (docs/gpu.md). It takes longer to compile than everything else, so it is
# built only if this machine has a GPU, or on request. If CUDA or cuDNN is missing, telar is built for CPUs only, and one
# line of the output reports that.
set(TELAR_CUDA AUTO CACHE STRING
  "AUTO: build telar-cuda if there is a GPU; ON: always, for this GPU or for Hopper; ALL: if CUDA is there, for all GPUs; OFF")
set_property(CACHE TELAR_CUDA PROPERTY STRINGS AUTO ON ALL OFF)

# The code that describes values to the GPU libraries does not need these libraries, and is tested everywhere.
add_library(telar-cuda-parts STATIC telar/device/cuda/layouts.cpp telar/device/cuda/kernels/common/matrix_product.cpp)
set_target_properties(telar-cuda-parts PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
target_include_directories(telar-cuda-parts PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(telar-cuda-parts PUBLIC fmt::fmt)
telar_options(telar-cuda-parts)

# The fuzz targets do not need the rest.
if(TELAR_FUZZ)
  return()
endif()
find_package(CUDAToolkit 13 QUIET)
if(CUDAToolkit_FOUND)
  find_path(CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(CUBLASLT_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
  mark_as_advanced(CUDNN_INCLUDE CUBLASLT_INCLUDE CUDNN_LIBRARY)
endif()
# With TELAR_CUDA=ON a missing part is an error: what was asked for would not be built.
set(severity STATUS)
if(TELAR_CUDA STREQUAL "ON")
  set(severity FATAL_ERROR)
endif()
set(absent "CUDA 13 (nvcc, cuBLASLt) or cuDNN 9 is not here: telar is built for CPUs only (docs/gpu.md)")
if(NOT CUDAToolkit_FOUND OR NOT CUBLASLT_INCLUDE OR NOT CUDNN_INCLUDE)
  message(${severity} "${absent}")
  return()
endif()
set(version "of another version")
if(EXISTS ${CUDNN_INCLUDE}/cudnn_version.h)
  file(STRINGS ${CUDNN_INCLUDE}/cudnn_version.h version REGEX "^#define CUDNN_MAJOR +[0-9]+")
  string(REGEX REPLACE "^.* ([0-9]+).*$" "\\1" version "${version}")
endif()
if(NOT version STREQUAL "9")
  message(${severity} "${CUDNN_INCLUDE} has cuDNN ${version}, not cuDNN 9: telar is built for CPUs only (docs/gpu.md)")
  return()
endif()

# The module's sources, and the few that it needs of lower floors: it shares no symbols with the program.
file(GLOB_RECURSE TELAR_CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/telar/device/cuda/*.cpp)
list(FILTER TELAR_CUDA_SOURCES EXCLUDE REGEX "/layouts\\.cpp$|/matrix_product\\.cpp$")  # in telar-cuda-parts
file(GLOB TELAR_CUDA_LOOPS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/telar/device/cuda/loops/*.cu)
set(TELAR_CUDA_FLOORS telar/device/memory_plan.cpp telar/device/layout.cpp telar/device/update_sections.cpp telar/core/cache_folder.cpp
  telar/core/dtype.cpp telar/core/shape.cpp telar/core/random.cpp telar/core/attributes.cpp telar/graph/backward_part.cpp telar/graph/buffer_text.cpp
  telar/graph/graph.cpp telar/graph/ops/gather_extents.cpp)

# The tests (tests/cuda) also build the sources with stand-ins for the GPU libraries, which need only the
# headers. Builds with sanitizers have only that version, because nvcc does not support sanitizers.
if(TELAR_SANITIZE)
  return()
endif()
if(TELAR_CUDA STREQUAL "OFF" OR (TELAR_CUDA STREQUAL "AUTO" AND NOT EXISTS /dev/nvidia0))
  message(STATUS "no GPU is here: telar is built for CPUs only; scripts/build --cuda builds for GPUs, too (docs/gpu.md)")
  return()
endif()
if(NOT CUDAToolkit_NVCC_EXECUTABLE OR NOT TARGET CUDA::cublasLt OR NOT CUDNN_LIBRARY)
  message(${severity} "${absent}")
  return()
endif()

# ALL: code for each GPU generation with bf16, from Ampere on, and PTX, which the driver compiles for later ones.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(TELAR_CUDA STREQUAL "ALL")
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 100-virtual)
  elseif(EXISTS /dev/nvidia0)
    set(CMAKE_CUDA_ARCHITECTURES native)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 90-real 90-virtual)
  endif()
endif()
if(NOT DEFINED CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)

# nvcc compiles only the .cu files. (C++17: this version of CMake supports no later standard for CUDA.)
add_library(telar-cuda-loops STATIC ${TELAR_CUDA_LOOPS})
set_target_properties(telar-cuda-loops PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_VISIBILITY_PRESET hidden CUDA_STANDARD 17)
target_include_directories(telar-cuda-loops PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(telar-cuda-loops PRIVATE --expt-relaxed-constexpr --extended-lambda --Werror=all-warnings
  -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror)

add_library(telar-cuda MODULE ${TELAR_CUDA_SOURCES} ${TELAR_CUDA_FLOORS})
# Contains no run path: libraries are found by name on the machine on which it runs.
set_target_properties(telar-cuda PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden SKIP_BUILD_RPATH ON
  INSTALL_RPATH "" LINKER_LANGUAGE CXX)
target_include_directories(telar-cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE})
target_link_libraries(telar-cuda PRIVATE telar-cuda-parts telar-cuda-loops fmt::fmt CUDA::cublasLt ${CUDNN_LIBRARY}
  CUDA::cudart_static)
target_link_options(telar-cuda PRIVATE -Wl,--no-undefined)
telar_registry(telar-cuda telar/device/cuda/kernels cuda::Kernels telar/device/cuda/kernels.h)
telar_options(telar-cuda)
