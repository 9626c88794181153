# The module telar._native, by which the Python package telar calls the engine. It needs the headers of Python, NumPy at
# run time, and nanobind, which scripts/setup python installs. The package is below build/PRESET/python.
set(TELAR_PYTHON_MODULE AUTO CACHE STRING "AUTO: build the Python module if nanobind is there; ON: always; OFF")
set_property(CACHE TELAR_PYTHON_MODULE PROPERTY STRINGS AUTO ON OFF)
if(TELAR_PYTHON_MODULE STREQUAL "OFF" OR TELAR_FUZZ OR TELAR_SANITIZE)
  return()
endif()

# A Python that has nanobind: that of scripts/setup python, or the one that builds a wheel.
set(folder $ENV{TELAR_PYTHON})
if(NOT folder)
  set(folder $ENV{HOME}/.cache/telar/python)
  if(DEFINED ENV{XDG_CACHE_HOME})
    set(folder $ENV{XDG_CACHE_HOME}/telar/python)
  endif()
endif()
if(NOT DEFINED Python_EXECUTABLE AND EXISTS ${folder}/bin/python)
  set(Python_EXECUTABLE ${folder}/bin/python)
endif()
find_package(Python 3.9 COMPONENTS Interpreter Development.Module)
if(Python_FOUND)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_DIR
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT nanobind_DIR)
  set(absent "nanobind or the headers of Python are missing: the Python package will not be built (scripts/setup python)")
  if(TELAR_PYTHON_MODULE STREQUAL "ON")
    message(FATAL_ERROR "${absent}")
  endif()
  message(STATUS "${absent}")
  return()
endif()
find_package(nanobind CONFIG REQUIRED)

# The same file for every Python from 3.12 on.
nanobind_add_module(telar-python NB_STATIC STABLE_ABI NB_SUPPRESS_WARNINGS)
telar_sources(telar-python python/native)
# Its library in one unit, as its nb_combined.cpp has it.
get_target_property(nanobind telar-python LINK_LIBRARIES)
list(FILTER nanobind INCLUDE REGEX "^nanobind")
set_target_properties(${nanobind} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
set_target_properties(telar-python PROPERTIES OUTPUT_NAME _native CXX_STANDARD 20
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/telar)
target_link_libraries(telar-python PRIVATE telar)
telar_options(telar-python)

# In the build folder the package is made of links, so that a change of its sources needs no build.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/python/telar)
file(GLOB parts CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python/telar ${CMAKE_SOURCE_DIR}/python/telar/*)
foreach(part ${parts})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/telar/${part} ${CMAKE_BINARY_DIR}/python/telar/${part} SYMBOLIC)
endforeach()

# A wheel (pyproject.toml) has the component python: the module, beside the package's sources, and the command line.
install(TARGETS telar-python LIBRARY DESTINATION telar COMPONENT python EXCLUDE_FROM_ALL)
if(SKBUILD)
  add_custom_target(telar-package DEPENDS telar-python telar-cli)
  install(TARGETS telar-cli RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python EXCLUDE_FROM_ALL)
  if(TARGET telar-weave)
    add_dependencies(telar-package telar-weave)
    install(TARGETS telar-weave LIBRARY DESTINATION ${SKBUILD_DATA_DIR}/lib/telar COMPONENT python EXCLUDE_FROM_ALL)
  endif()
endif()
