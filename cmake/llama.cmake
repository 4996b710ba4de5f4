# Finds llama.cpp, or builds it once if necessary, and provides three targets:
#   larder_ggml_headers          public headers of ggml and llama.cpp
#   larder_ggml_private_headers  the same, and the few private headers of ggml's CPU backend that src/compute includes
#   larder_llama                 headers and static libraries: llama.cpp's common, llama, ggml
set(larder_llama_env "CXX=${CMAKE_CXX_COMPILER}")
if(LARDER_LLAMA_DIR)
  list(APPEND larder_llama_env "LARDER_LLAMA_DIR=${LARDER_LLAMA_DIR}")
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env ${larder_llama_env} "${CMAKE_SOURCE_DIR}/scripts/llama.sh"
  OUTPUT_VARIABLE LARDER_LLAMA_HOME
  OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE larder_llama_result)
if(NOT larder_llama_result EQUAL 0)
  message(FATAL_ERROR "llama.cpp could not be provided; the reason stands above")
endif()
message(STATUS "llama.cpp: ${LARDER_LLAMA_HOME}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/scripts/llama.sh")

find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)

set(llama_src "${LARDER_LLAMA_HOME}/src")
add_library(larder_ggml_headers INTERFACE)
target_include_directories(larder_ggml_headers SYSTEM INTERFACE
  "${llama_src}/include" "${llama_src}/ggml/include")

add_library(larder_ggml_private_headers INTERFACE)
target_link_libraries(larder_ggml_private_headers INTERFACE larder_ggml_headers)
target_include_directories(larder_ggml_private_headers SYSTEM INTERFACE
  "${llama_src}/ggml/src" "${llama_src}/ggml/src/ggml-cpu")

# The headers of common need the version of nlohmann/json that they were built with.
add_library(larder_llama INTERFACE)
target_include_directories(larder_llama SYSTEM INTERFACE
  "${llama_src}/common" "${llama_src}/src" "${llama_src}/vendor")
set(llama_libraries "")
foreach(library llama-common llama-common-base llama ggml ggml-cpu ggml-base cpp-httplib)
  list(APPEND llama_libraries "${LARDER_LLAMA_HOME}/lib/lib${library}.a")
endforeach()
target_link_libraries(larder_llama INTERFACE
  larder_ggml_headers
  -Wl,--start-group ${llama_libraries} -Wl,--end-group
  OpenMP::OpenMP_CXX Threads::Threads ${CMAKE_DL_LIBS})
