# telar_registry(TARGET FOLDER REGISTRY HEADER): each .cpp file of a folder adds to a registry, and no other file names it.
# FILE.cpp defines register_FILE(REGISTRY&). The generated source defines register_all(REGISTRY&), which calls them all, in
# the order of the files' names. (Objects that register themselves before main() would not be linked from a static library.)
function(telar_registry target folder registry header)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(SORT files)
  set(declarations "")
  set(calls "")
  foreach(file ${files})
    cmake_path(GET file STEM name)
    string(APPEND declarations "void register_${name}(${registry}& registry);\n")
    string(APPEND calls "  register_${name}(registry);\n")
  endforeach()
  set(output ${CMAKE_BINARY_DIR}/generated/${folder}/register_all.cpp)
  file(CONFIGURE OUTPUT ${output} @ONLY
    CONTENT "#include \"${header}\"\n\nnamespace telar {\n\n${declarations}\nvoid register_all(${registry}& registry) {\n${calls}}\n\n}  // namespace telar\n")
  target_sources(${target} PRIVATE ${output})
endfunction()
