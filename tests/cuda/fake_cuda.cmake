# The module telar-cuda once more, on host functions that stand for CUDA's runtime, cuBLASLt, cuDNN and NCCL, its loops compiled as C++: as
# objects for the tests that look into it, and as the shared module that the program loads (TELAR_MODULES=FOLDER). It needs CUDA's
# headers, and neither nvcc nor its libraries.
if(NOT TELAR_CUDA_SOURCES)
  return()
endif()
set_source_files_properties(${TELAR_CUDA_LOOPS} PROPERTIES LANGUAGE CXX)
file(GLOB fakes CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/fake_*.cpp)
list(FILTER fakes EXCLUDE REGEX "_test\\.cpp$")
add_library(fake_cuda_parts OBJECT ${TELAR_CUDA_SOURCES} ${TELAR_CUDA_LOOPS} ${fakes} ${CMAKE_CURRENT_LIST_DIR}/device_memory.cpp)
set_target_properties(fake_cuda_parts PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
target_include_directories(fake_cuda_parts PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
target_include_directories(fake_cuda_parts SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE})
target_link_libraries(fake_cuda_parts PRIVATE telar-cuda-parts fmt::fmt)
telar_options(fake_cuda_parts)

list(TRANSFORM TELAR_CUDA_FLOORS PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE floors_below)
add_library(fake_cuda MODULE ${floors_below})
set_target_properties(fake_cuda PROPERTIES PREFIX "" OUTPUT_NAME telar-cuda CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_cuda)
target_include_directories(fake_cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(fake_cuda PRIVATE fake_cuda_parts fmt::fmt)
telar_options(fake_cuda)
# The operations' own types are the program's, which the module shares no symbols with: nothing to compare their objects with.
if(TELAR_SANITIZE MATCHES undefined)
  foreach(target fake_cuda_parts fake_cuda)
    target_compile_options(${target} PRIVATE -fno-sanitize=vptr)
  endforeach()
endif()
# NCCL's name, too, whose functions it has: who asks for that library is given what is loaded already. (A path of its own to a second name would
# not do: sanitizers open libraries themselves, and do not see it.)
target_link_options(fake_cuda PRIVATE -Wl,-soname,libnccl.so.2)
