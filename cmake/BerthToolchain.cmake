# Language, warnings, sanitizers and output folders, the same for every target of the project.

option(BERTH_WERROR "Treat warnings as errors" ON)
option(BERTH_FUZZ "Build the libFuzzer programs instead of the tests (clang)" OFF)
set(BERTH_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them; empty for none")

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

# No NDEBUG anywhere: assertions stay on in what users run. Line tables are enough for a profile and a backtrace and keep
# links short; the debug preset has everything.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g -DBERTH_DEBUG")

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(BERTH_CCACHE ccache)
  if(BERTH_CCACHE)
    # Several checkouts of the project on one machine share what they have in common.
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${BERTH_CCACHE})
  endif()
endif()

# Paths in debug information and __FILE__ are relative to the root: builds in other folders give the same objects.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
# a*b+c must round the same on every machine and at every optimisation level.
add_compile_options(-ffp-contract=off)
add_compile_definitions(_GLIBCXX_ASSERTIONS)

# Flags for our own code; system headers are included with -isystem and stay silent.
add_library(berth_warnings INTERFACE)
target_compile_options(
  berth_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wsign-conversion
            -Wnon-virtual-dtor
            -Wold-style-cast
            -Woverloaded-virtual
            -Wcast-align
            -Wformat=2
            -Wimplicit-fallthrough
            -Wundef
            -Wunused)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(berth_warnings INTERFACE -Wduplicated-cond -Wduplicated-branches -Wlogical-op)
endif()
# Sanitizers and clang see other warnings than the release compiler, which is the one that must be silent.
if(BERTH_WERROR AND NOT BERTH_SANITIZE)
  target_compile_options(berth_warnings INTERFACE -Werror)
endif()

if(BERTH_SANITIZE)
  add_compile_options(-fsanitize=${BERTH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BERTH_SANITIZE})
endif()
if(BERTH_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "BERTH_FUZZ needs clang (libFuzzer): cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
