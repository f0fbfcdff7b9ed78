# Build options and the flags that every target gets.
option(ARTESIAN_FUZZ "Build the libFuzzer targets (clang only)" OFF)
option(ARTESIAN_PYTHON "Build the Python module alone, without tests; pip install . sets it" OFF)
option(ARTESIAN_TIDY "Run clang-tidy with the compiler" OFF)
set(ARTESIAN_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined or thread")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(artesian_flags INTERFACE)
target_compile_options(artesian_flags INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-missing-field-initializers  # designated initialisers leave out what has a default
  -fno-omit-frame-pointer)
target_include_directories(artesian_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(artesian_flags INTERFACE -Wthread-safety)
endif()
if(ARTESIAN_SANITIZE)
  add_compile_options(-fsanitize=${ARTESIAN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ARTESIAN_SANITIZE})
  if(ARTESIAN_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # fences are not modelled: what is ordered by one must be atomic itself
  endif()
endif()
if(ARTESIAN_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined)
  add_link_options(-fsanitize=address,undefined)
endif()
if(ARTESIAN_TIDY)
  find_program(CLANG_TIDY NAMES clang-tidy-19 REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${CLANG_TIDY})
endif()
