# Functions that declare larder's modules and tests.
add_library(larder_flags INTERFACE)
target_compile_options(larder_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor)
if(LARDER_WERROR)
  target_compile_options(larder_flags INTERFACE -Werror)
endif()
if(LARDER_SANITIZE)
  target_compile_options(larder_flags INTERFACE -fsanitize=${LARDER_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(larder_flags INTERFACE -fsanitize=${LARDER_SANITIZE})
endif()
target_include_directories(larder_flags INTERFACE "${CMAKE_SOURCE_DIR}/src")

# larder_module(FOLDER USES folders... LINK libraries... LINK_PRIVATE libraries...): a static library of
# src/FOLDER/*.cpp. The library of lab/trace is larder_lab_trace.
function(larder_module folder)
  cmake_parse_arguments(arg "" "" "USES;LINK;LINK_PRIVATE" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp")
  add_library(larder_${name} STATIC ${sources})
  target_link_libraries(larder_${name} PUBLIC larder_flags)
  foreach(used ${arg_USES})
    string(REPLACE "/" "_" used ${used})
    target_link_libraries(larder_${name} PUBLIC larder_${used})
  endforeach()
  target_link_libraries(larder_${name} PUBLIC ${arg_LINK} PRIVATE ${arg_LINK_PRIVATE})
endfunction()

# larder_test(FOLDER LINK targets... LABELS labels... TIMEOUT seconds): a GoogleTest program of tests/FOLDER/*.cpp. The
# program of lab/trace is trace_test.
# Tests are compiled with -O1: that takes a third less time, and they run as fast.
function(larder_test folder)
  cmake_parse_arguments(arg "" "TIMEOUT" "LINK;LABELS" ${ARGN})
  get_filename_component(name ${folder} NAME)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${folder}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_include_directories(${name}_test PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_link_libraries(${name}_test PRIVATE larder_flags ${arg_LINK} GTest::gtest_main GTest::gmock)
  target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
  add_test(NAME ${name} COMMAND ${name}_test)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  # Waiting threads that spin would take cores from working threads if the machine is busy.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
                       ENVIRONMENT OMP_WAIT_POLICY=passive)
endfunction()
