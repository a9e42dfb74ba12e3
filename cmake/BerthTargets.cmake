# What a folder of the project says about itself, and what follows from it.
#
#   berth_library(core_model DEPS base PRIVATE_DEPS fmt::fmt)
#
# turns the folder of the calling CMakeLists.txt into
#
#   berth::core_model    static library of all *.cc files (header-only folders become an interface library)
#   core_model_test      ONE GoogleTest program of all *_test.cc files (RapidCheck linked), every TEST known to ctest
#   core_model_bench     program of all *_bench.cc files, if BERTH_BENCHMARKS is on
#   FILE_fuzz            one libFuzzer program per *_fuzz.cc, under the fuzz preset only
#
# New files are found by themselves. DEPS are visible to those who use the library (its headers include them),
# PRIVATE_DEPS are not, TEST_DEPS are for the test program alone. A name without "::" is another folder's library.
#
#   berth_program(berth DEPS cli)      program build/bin/berth of all *.cc files in the folder
#
#   berth_bare(guard_bare FOLDERS src/base src/grant)    those folders as berth::guard_bare without sanitizers, whatever
#   berth_bare_program(TARGET)                           the preset; and a program of its own built so. For what is loaded
#                                                        with the guard before everything else, which no sanitizer's
#                                                        runtime allows

include(GoogleTest)

if(BERTH_FUZZ)
  add_custom_target(fuzzers)  # all of them
endif()

set(BERTH_TEST_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
option(BERTH_BENCHMARKS "Build the *_bench.cc programs (needs libbenchmark-dev)" OFF)

# Turns folder names into target names: base -> berth::base; fmt::fmt stays. CMake refuses a "::" name that no folder
# defines, where a plain name would silently become a linker flag.
function(berth_resolve result)
  set(resolved)
  foreach(name IN LISTS ARGN)
    if(name MATCHES "::")
      list(APPEND resolved ${name})
    else()
      list(APPEND resolved berth::${name})
    endif()
  endforeach()
  set(${result} ${resolved} PARENT_SCOPE)
endfunction()

function(berth_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPS;PRIVATE_DEPS;TEST_DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "berth_library(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  berth_resolve(deps ${arg_DEPS})
  berth_resolve(private_deps ${arg_PRIVATE_DEPS})
  berth_resolve(test_deps ${arg_TEST_DEPS})

  set(folder ${CMAKE_CURRENT_SOURCE_DIR})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${folder}/*_test.cc)
  file(GLOB benches CONFIGURE_DEPENDS ${folder}/*_bench.cc)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${folder}/*_fuzz.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")

  if(sources)
    add_library(berth_${name} STATIC ${sources})
    target_include_directories(berth_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(berth_${name} PUBLIC ${deps} PRIVATE ${private_deps} berth_warnings)
  else()
    add_library(berth_${name} INTERFACE)
    target_include_directories(berth_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(berth_${name} INTERFACE ${deps} ${private_deps})
  endif()
  add_library(berth::${name} ALIAS berth_${name})

  if(BERTH_FUZZ)
    berth_fuzzers(${name} FILES ${fuzzers} DEPS ${private_deps} ${test_deps})
    return()
  endif()
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE berth::${name} ${private_deps} ${test_deps} GTest::gmock GTest::gtest_main
                                               rapidcheck::rapidcheck berth_warnings)
    berth_register_tests(${name}_test)
  endif()
  if(benches AND BERTH_BENCHMARKS)
    find_package(benchmark REQUIRED)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE berth::${name} ${private_deps} benchmark::benchmark_main berth_warnings)
  endif()
endfunction()

# Makes every TEST of a GoogleTest program a ctest test of the same name. Found when ctest runs, so that a build does
# not start programs. Tests run in the root of the source tree and know where programs lie.
function(berth_register_tests target)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${BERTH_TEST_DIRECTORY})
  target_compile_definitions(${target} PRIVATE BERTH_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
                                               BERTH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Labels of the folder; CMake does not hand them to tests that are found when ctest runs.
  get_property(labels DIRECTORY PROPERTY LABELS)
  set(properties)
  if(labels)
    set(properties PROPERTIES LABELS "${labels}")
  endif()
  gtest_discover_tests(${target} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       ${properties})
endfunction()

function(berth_fuzzers library)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FILES;DEPS")
  foreach(file IN LISTS arg_FILES)
    get_filename_component(fuzzer ${file} NAME_WE)
    add_executable(${fuzzer} ${file})
    target_link_libraries(${fuzzer} PRIVATE berth::${library} ${arg_DEPS} berth_warnings)
    target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${fuzzer} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzzers)
    add_dependencies(fuzzers ${fuzzer})
  endforeach()
endfunction()

function(berth_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "berth_program(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  berth_resolve(deps ${arg_DEPS})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${deps} berth_warnings)
endfunction()

function(berth_bare name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOLDERS")
  set(sources)
  foreach(folder IN LISTS arg_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
    list(APPEND sources ${found})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  add_library(berth_${name} STATIC ${sources})
  target_include_directories(berth_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(berth_${name} PRIVATE -fno-sanitize=all)
  target_link_libraries(berth_${name} PRIVATE fmt::fmt berth_warnings)
  add_library(berth::${name} ALIAS berth_${name})
endfunction()

function(berth_bare_program target)
  target_compile_options(${target} PRIVATE -fno-sanitize=all)
  target_link_options(${target} PRIVATE -fno-sanitize=all)
endfunction()
