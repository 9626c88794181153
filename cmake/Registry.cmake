# telar_registry(TARGET FOLDER REGISTRY HEADER): each .cpp file of a folder adds to a registry, and no other file names it.
# FILE.cpp defines register_FILE(REGISTRY&). The generated source defines register_all(REGISTRY&), which calls them all, in
# the order of the files' names. (Objects that register themselves before main() would not be linked from a static library.)
# A qualified registry (cpu::Kernels) has these functions in its own namespace (telar::cpu).
function(telar_registry target folder registry header)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(SORT files)
  set(scope telar)
  if(registry MATCHES "^(.+)::([^:]+)$")
    set(scope telar::${CMAKE_MATCH_1})
    set(registry ${CMAKE_MATCH_2})
  endif()
  set(declarations "")
  set(calls "")
  foreach(file ${files})
    cmake_path(GET file STEM name)
    string(APPEND declarations "void register_${name}(${registry}& registry);\n")
    string(APPEND calls "  register_${name}(registry);\n")
  endforeach()
  set(output ${CMAKE_BINARY_DIR}/generated/${folder}/register_all.cpp)
  file(CONFIGURE OUTPUT ${output} @ONLY
    CONTENT "#include \"${header}\"\n\nnamespace ${scope} {\n\n${declarations}\nvoid register_all(${registry}& registry) {\n${calls}}\n\n}  // namespace ${scope}\n")
  target_sources(${target} PRIVATE ${output})
endfunction()
