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
  # The address sanitizer sees accesses through null and beyond an object, too; these two checks take an eighth of the
  # compiler's time.
  if(TELAR_SANITIZE MATCHES "address,undefined")
    add_compile_options(-fno-sanitize=null,object-size)
  endif()
  add_link_options(-fsanitize=${TELAR_SANITIZE})
endif()

# Links several times as fast as GNU's linker, which matters for the test programs.
find_program(TELAR_LLD ld.lld)
if(TELAR_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# GCC collects garbage from 128 MB on; without it a unit takes 5 to 15 % less of its time, and up to 1.4 GB. The code is the same.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=2000000>)

# For code that runs once in a job or once in a step: -O1, which takes half of the compiler's time of -O3.
function(telar_cold target)
  telar_level(${target} -O1)
endfunction()

# For tests and weave: -Og, which takes a fifth less.
function(telar_once target)
  telar_level(${target} -Og)
endfunction()

function(telar_level target level)
  if(NOT TELAR_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:${level}>)
  endif()
endfunction()

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

# Compiles the sources of a target in units of one folder: headers take much of the compiler's time, and a unit reads each
# header only once. A file's unit follows from its path alone, so an edit, a new file or another name changes no unit but
# the file's own, before and after. The files of a unit share one file scope, so names in the anonymous namespaces of a
# folder must differ. TELAR_UNITS=OFF compiles each file alone, which shows a missing #include.
option(TELAR_UNITS "Compile the sources of a folder in units" ON)
# The folders of more than about 100 KB, and their numbers of units; any other folder is one unit, or a part of another's.
set(units_of_folders telar/bench=2 telar/cli=2 telar/train=4 telar/weave/keras=2
  telar/weave/torch=5 tests/cli=2 tests/comm=2 tests/cuda=2 tests/data=2 tests/train=3)
set(joined_folders telar/comm/mpi=telar/comm telar/data/arrays=telar/data telar/data/messages=telar/data/tables
  telar/data/texts=telar/data telar/data/pictures/tiff=telar/data/sources telar/data/streams/kafka=telar/data/sources
  telar/device=telar/core telar/nn/layers=telar/nn telar/nn/zoo=telar/nn telar/runtime/actions=telar/runtime
  telar/strategy/strategies=telar/strategy)
function(telar_units target)
  if(NOT TELAR_UNITS)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # GCC warns of types in an anonymous namespace of an included file. That is a mistake in a header, but not in a unit.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    get_source_file_property(language ${source} LANGUAGE)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(grouped ${source} UNITY_GROUP)  # by another target
    if(NOT (source MATCHES "\\.cpp$" OR language STREQUAL "CXX") OR NOT EXISTS ${source} OR options OR alone OR grouped)
      continue()
    endif()
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    cmake_path(GET source PARENT_PATH folder)
    if(folder MATCHES "/generated/")
      set(folder registries)
    elseif("${joined_folders}" MATCHES "(^|;)${folder}=([^;]+)")
      set(folder ${CMAKE_MATCH_2})
    endif()
    string(MAKE_C_IDENTIFIER ${folder} unit)
    if("${units_of_folders}" MATCHES "(^|;)${folder}=([0-9]+)")
      string(MD5 digest ${source})
      string(SUBSTRING ${digest} 0 8 digest)
      math(EXPR number "0x${digest} % ${CMAKE_MATCH_2}")
      string(APPEND unit _${number})
    endif()
    set_source_files_properties(${CMAKE_SOURCE_DIR}/${source} PROPERTIES UNITY_GROUP ${unit})
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
    set(sources ${stem}.pb.cc)
    set(headers ${stem}.pb.h)
    set(grpc)
    file(STRINGS ${CMAKE_SOURCE_DIR}/${protocol} services REGEX "^service ")
    if(services)
      list(APPEND sources ${stem}.grpc.pb.cc)
      list(APPEND headers ${stem}.grpc.pb.h)
      set(grpc --grpc_out=${generated} --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
    endif()
    add_custom_command(OUTPUT ${sources} ${headers}
      COMMAND protobuf::protoc --proto_path=${CMAKE_SOURCE_DIR} --cpp_out=${generated} ${grpc} ${protocol}
      DEPENDS ${CMAKE_SOURCE_DIR}/${protocol} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -w SKIP_PRECOMPILE_HEADERS ON)
    target_sources(${target} PRIVATE ${sources})
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE ${generated})
endfunction()
