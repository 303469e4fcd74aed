# SPDX-License-Identifier: BSD-3-Clause
# Uses ccache where it is found, set so that precompiled headers hit too.

set(REPRISE_CCACHE_ACTIVE OFF)
if(NOT REPRISE_CCACHE)
  return()
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER)
  return()  # the user has a launcher already
endif()

find_program(REPRISE_CCACHE_PROGRAM ccache)
mark_as_advanced(REPRISE_CCACHE_PROGRAM)
if(REPRISE_CCACHE_PROGRAM)
  set(REPRISE_CCACHE_ACTIVE ON)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
    "CCACHE_INODECACHE=1"
    "${REPRISE_CCACHE_PROGRAM}")
endif()
message(STATUS "ccache: ${REPRISE_CCACHE_PROGRAM}")
