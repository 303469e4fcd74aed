# SPDX-License-Identifier: BSD-3-Clause
# Installs the build to a folder of its own, then builds and runs examples/consumer against it:
# with LibTorch found by the installed FindLibTorch.cmake, and with a target `torch` made before.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${result}): ${command}\n${output}")
  endif()
  set(run_output "${output}" PARENT_SCOPE)
endfunction()

set(prefix "${WORK_DIR}/prefix")
set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${LAUNCHER}")  # a list, which a command line would split
file(REMOVE_RECURSE "${WORK_DIR}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --config "${BUILD_TYPE}" --prefix "${prefix}")

foreach(wanted IN ITEMS include/reprise/reprise.h include/reprise/version.h)
  if(NOT EXISTS "${prefix}/${wanted}")
    message(FATAL_ERROR "not installed: ${wanted}")
  endif()
endforeach()

function(build_consumer name)
  set(build "${WORK_DIR}/${name}")
  run("${CMAKE_COMMAND}" -S "${SOURCE_DIR}/examples/consumer" -B "${build}" -G "${GENERATOR}"
    "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}"
    "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
    "-DCMAKE_PREFIX_PATH=${prefix}"
    ${ARGN})
  message(STATUS "${name}: configured")
  run("${CMAKE_COMMAND}" --build "${build}" --config "${BUILD_TYPE}")
  file(GLOB_RECURSE program "${build}/consumer" "${build}/*/consumer")
  run("${program}")
  if(NOT run_output MATCHES "ok")
    message(FATAL_ERROR "${name}: the consumer printed '${run_output}'")
  endif()
  message(STATUS "${name}: ok")
endfunction()

build_consumer(found "-DLibTorch_ROOT=${LIBTORCH_ROOT}")
build_consumer(given -DCONSUMER_HAS_TORCH=ON "-Dtorch_root=${LIBTORCH_ROOT}")

# Where LibTorch is missing, one clear message.
file(MAKE_DIRECTORY "${WORK_DIR}/empty")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE_DIR}/examples/consumer" -B "${WORK_DIR}/missing"
    -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_PREFIX_PATH=${prefix}"
    "-DLibTorch_ROOT=${WORK_DIR}/empty"
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(result EQUAL 0 OR NOT output MATCHES "holds no LibTorch")
  message(FATAL_ERROR "an empty LibTorch_ROOT was accepted, or not explained:\n${output}")
endif()
message(STATUS "missing: refused")
