# Settings shared by every target of the project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

if(TELAR_SANITIZE)
  add_compile_options(-fsanitize=${TELAR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TELAR_SANITIZE})
endif()

# A designated initialiser names what differs from the defaults, hence no warning for what it leaves out.
# Warnings are errors in our code only: third-party headers come in as system headers.
function(telar_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
    -Wno-missing-field-initializers -Werror)
  # GCC 12 sees overlaps inside "text" + std::string that are not there (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  # Instrumented for coverage, a loop that is marked simd may stay as it is.
  if(TELAR_FUZZ)
    target_compile_options(${target} PRIVATE -Wno-pass-failed)
  endif()
  telar_units(${target})
endfunction()

# Compiles the sources of a target in units: consecutive files of one folder, up to this many bytes in each unit. Headers
# take more than half of the compiler's time, and a unit reads each header only once. The files of a unit share one file
# scope, so names in the anonymous namespaces of a folder must differ. 0 compiles each file alone, which shows a missing
# #include.
set(TELAR_UNIT_BYTES 60000 CACHE STRING "Bytes of sources that are compiled as one unit; 0: each file alone")
function(telar_units target)
  if(TELAR_UNIT_BYTES EQUAL 0)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # GCC warns of types in an anonymous namespace of an included file. That is a mistake in a header, but not in a unit.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  get_target_property(sources ${target} SOURCES)
  list(SORT sources)
  set(folder "")
  set(sum 0)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    get_source_file_property(language ${source} LANGUAGE)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(grouped ${source} UNITY_GROUP)  # by another target
    if(NOT (source MATCHES "\\.cpp$" OR language STREQUAL "CXX") OR NOT EXISTS ${source} OR options OR alone OR grouped)
      continue()
    endif()
    cmake_path(GET source PARENT_PATH parent)
    file(SIZE ${source} bytes)
    math(EXPR sum "${sum} + ${bytes}")
    if(NOT parent STREQUAL folder OR sum GREATER TELAR_UNIT_BYTES)
      set(folder ${parent})
      set(sum ${bytes})
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE unit)
      string(MAKE_C_IDENTIFIER ${unit} unit)
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
  endforeach()
endfunction()

# Every .cpp of a folder belongs to its target: a new operation, source or strategy is a new file and nothing else.
function(telar_sources target folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  target_sources(${target} PRIVATE ${sources})
endfunction()

# Every .proto below a folder: messages and services (FILE.pb.h, FILE.grpc.pb.h), generated under the same path, without
# our warnings.
function(telar_protocols target folder)
  file(GLOB_RECURSE protocols CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${folder}/*.proto)
  set(generated ${CMAKE_BINARY_DIR}/protocols)
  file(MAKE_DIRECTORY ${generated})
  foreach(protocol ${protocols})
    string(REGEX REPLACE "\\.proto$" "" stem ${generated}/${protocol})
    set(sources ${stem}.pb.cc ${stem}.grpc.pb.cc)
    add_custom_command(OUTPUT ${sources} ${stem}.pb.h ${stem}.grpc.pb.h
      COMMAND protobuf::protoc --proto_path=${CMAKE_SOURCE_DIR} --cpp_out=${generated} --grpc_out=${generated}
        --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin> ${protocol}
      DEPENDS ${CMAKE_SOURCE_DIR}/${protocol} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -w SKIP_PRECOMPILE_HEADERS ON)
    target_sources(${target} PRIVATE ${sources})
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE ${generated})
endfunction()
