# The preload shim of `artesian run`: loaded into other people's programs, so it links libc alone (no C++ runtime, and no
# sanitizer: a preloaded library with one stops a program that has none).
add_library(artesian_preload SHARED ${CMAKE_CURRENT_LIST_DIR}/preload.cpp)
target_link_libraries(artesian_preload PRIVATE artesian_flags ${CMAKE_DL_LIBS})
target_compile_options(artesian_preload PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-sanitize=all)
target_link_options(artesian_preload PRIVATE -fno-sanitize=all -Wl,--no-undefined)
set_target_properties(artesian_preload PROPERTIES
  OUTPUT_NAME artesian-preload LINKER_LANGUAGE C CXX_VISIBILITY_PRESET hidden)
install(TARGETS artesian_preload LIBRARY DESTINATION lib)
