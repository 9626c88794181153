# Builds the module telar-cuda on host functions that replace CUDA's runtime, cuBLASLt, cuDNN and NCCL, with
# its loops compiled as C++. The result is a set of objects for the tests of its internals, and a shared
# module that the program loads (TELAR_MODULES=FOLDER). The build needs CUDA's headers, but neither nvcc nor
# CUDA's libraries.
if(NOT TELAR_CUDA_SOURCES)
  return()
endif()
set_source_files_properties(${TELAR_CUDA_LOOPS} PROPERTIES LANGUAGE CXX)
file(GLOB fakes CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/fake_*.cpp)
list(FILTER fakes EXCLUDE REGEX "_test\\.cpp$")
# Their loops over the elements, in calls of calls, would take minutes under a sanitizer without inlining.
if(TELAR_SANITIZE)
  set_source_files_properties(${fakes} PROPERTIES COMPILE_OPTIONS -O2)
endif()
add_library(fake_cuda_parts OBJECT ${TELAR_CUDA_SOURCES} ${TELAR_CUDA_LOOPS} ${fakes} ${CMAKE_CURRENT_LIST_DIR}/device_memory.cpp)
set_target_properties(fake_cuda_parts PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
target_include_directories(fake_cuda_parts PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
target_include_directories(fake_cuda_parts SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE})
target_link_libraries(fake_cuda_parts PRIVATE telar-cuda-parts fmt::fmt)
telar_registry(fake_cuda_parts telar/device/cuda/kernels cuda::Kernels telar/device/cuda/kernels.h)
telar_options(fake_cuda_parts)

list(TRANSFORM TELAR_CUDA_FLOORS PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE floors_below)
add_library(fake_cuda MODULE ${floors_below})
set_target_properties(fake_cuda PROPERTIES PREFIX "" OUTPUT_NAME telar-cuda CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_cuda)
target_include_directories(fake_cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(fake_cuda PRIVATE fake_cuda_parts fmt::fmt)
telar_options(fake_cuda)
# UBSan's vptr check compares type information, but the types of the operations belong to the program, and the
# module shares no symbols with it.
if(TELAR_SANITIZE MATCHES undefined)
  foreach(target fake_cuda_parts fake_cuda)
    target_compile_options(${target} PRIVATE -fno-sanitize=vptr)
  endforeach()
endif()
# The module contains NCCL's functions, so it has NCCL's soname: a load of that library returns the module,
# which is already loaded. A second file name would not work, because sanitizers open libraries themselves and
# do not see it.
target_link_options(fake_cuda PRIVATE -Wl,-soname,libnccl.so.2)
# As in the module for GPUs: what it lacks is found here, too.
if(NOT TELAR_SANITIZE)
  target_link_options(fake_cuda PRIVATE -Wl,--no-undefined)
endif()
