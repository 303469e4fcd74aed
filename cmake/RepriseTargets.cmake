# SPDX-License-Identifier: BSD-3-Clause
# What every target of the project shares: language, warnings, sanitizers, and one precompiled
# header of <torch/torch.h> for those that use the LibTorch front end.

# Warnings, sanitizers and the language level, for a target of our own.
function(reprise_setup_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  # LibTorch is released as built with NDEBUG, and a class of its headers (at::RecordFunction) has one
  # member more without it, which nobody would set: so in every build type.
  target_compile_definitions(${target} PRIVATE NDEBUG)
  if(REPRISE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # g++ 12 at -O2 sees overflows and uninitialised reads in the standard library that are not there.
    target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-stringop-overread
      -Wno-array-bounds -Wno-restrict -Wno-maybe-uninitialized)
  endif()
  if(REPRISE_CCACHE_ACTIVE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # lets ccache see the header
  endif()
  if(REPRISE_SANITIZERS)
    list(JOIN REPRISE_SANITIZERS "," sanitizers)
    target_compile_options(${target} PRIVATE
      -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${sanitizers})
    if("thread" IN_LIST REPRISE_SANITIZERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -Wno-tsan)  # a fence in LibTorch's intrusive_ptr
    endif()
  endif()
endfunction()

# Does this file include <torch/torch.h>, itself or through headers of the project?
function(reprise_includes_torch file out_var)
  set(seen "${file}")
  set(queue "${file}")
  while(queue)
    list(POP_FRONT queue current)
    file(STRINGS "${current}" lines REGEX "^#include [<\"]")
    foreach(line IN LISTS lines)
      if(line MATCHES "<torch/(torch|script)\\.h>")
        set(${out_var} TRUE PARENT_SCOPE)
        return()
      elseif(line MATCHES "\"(.+)\"")
        set(header "${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1}")
        if(EXISTS "${header}" AND NOT header IN_LIST seen)
          list(APPEND seen "${header}")
          list(APPEND queue "${header}")
        endif()
      endif()
    endforeach()
  endwhile()
  set(${out_var} FALSE PARENT_SCOPE)
endfunction()

# Gives a target the shared precompiled <torch/torch.h>, for those of its files that include it:
# the precompiled header costs a file some seconds, so the others do without. (An answer that an
# edit has outdated until the next configure only costs time.) The library has no precompiled
# header: its files include little of LibTorch, and a missing include must show.
function(reprise_use_torch_pch target)
  if(NOT REPRISE_PCH)
    return()
  endif()
  if(NOT TARGET reprise_pch)
    set(source "${PROJECT_BINARY_DIR}/pch/reprise_pch.cpp")
    if(NOT EXISTS "${source}")
      file(WRITE "${source}" "// Carries the precompiled header.\n")
    endif()
    add_library(reprise_pch OBJECT EXCLUDE_FROM_ALL "${source}")
    target_link_libraries(reprise_pch PRIVATE LibTorch::LibTorch)
    reprise_setup_target(reprise_pch)
    target_precompile_headers(reprise_pch PRIVATE <torch/torch.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM reprise_pch)

  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    reprise_includes_torch("${source}" includes_torch)
    if(NOT includes_torch)
      set_source_files_properties("${source}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# Defines NAME as the string `value`, in those files of the target that say NAME: a path in every
# command line would keep ccache from hitting in another checkout.
function(reprise_define_where_used target name value)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    file(STRINGS "${source}" uses REGEX "${name}" LIMIT_COUNT 1)
    if(uses)
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_DEFINITIONS "${name}=\"${value}\"")
    endif()
  endforeach()
endfunction()

# A program: one source or more, linked to the library and what else is named.
#   reprise_add_program(NAME SOURCES … [LINKS …])
function(reprise_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE Reprise::reprise ${arg_LINKS})
  reprise_setup_target(${name})
  reprise_use_torch_pch(${name})
endfunction()
