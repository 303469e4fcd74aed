# SPDX-License-Identifier: BSD-3-Clause
#[=======================================================================[.rst:
FindLibTorch
------------

Finds LibTorch (the C++ side of PyTorch) in a PyTorch wheel or a libtorch zip. Needs no CUDA
toolkit, and never runs or imports PyTorch. The first of these that holds a LibTorch is taken:

1. a target ``torch`` that exists already (as ``find_package(Torch)`` makes it);
2. ``LibTorch_ROOT``, a CMake or environment variable: the ``torch`` folder of a wheel, an unpacked
   libtorch zip, or a Python environment. If it is set and holds none, that is an error;
3. ``CMAKE_PREFIX_PATH`` (CMake or environment), read in the same way;
4. ``LibTorch_HINTS``, for package files: where the library was built against;
5. an active Python environment, then ``.venv`` in the project's folder;
6. the ``torch`` module that ``python3`` would import.

Options
  ``LibTorch_CUDA``           ``AUTO`` (default: link CUDA where it can be loaded), ``ON``, ``OFF``

Targets
  ``LibTorch::LibTorch``      what to link

Results
  ``LibTorch_FOUND``, ``LibTorch_VERSION``, ``LibTorch_ROOT_DIR``, ``LibTorch_INCLUDE_DIRS``,
  ``LibTorch_LIBRARY_DIR``, ``LibTorch_WITH_CUDA``
#]=======================================================================]

set(LibTorch_MINIMUM_VERSION 2.11)
set(LibTorch_CUDA AUTO CACHE STRING "Link LibTorch's CUDA libraries: AUTO, ON or OFF")
set_property(CACHE LibTorch_CUDA PROPERTY STRINGS AUTO ON OFF)

# Sets out_var to the folder that holds include/ and lib/ of a LibTorch, given that folder, the
# folder of its CMake package, or a Python environment; to an empty string where there is none.
function(_libtorch_locate base out_var)
  set(${out_var} "" PARENT_SCOPE)
  if(NOT base OR NOT IS_DIRECTORY "${base}")
    return()
  endif()
  file(GLOB site_packages
    "${base}/lib/python3*/site-packages/torch"
    "${base}/lib/python3*/dist-packages/torch")
  foreach(folder IN ITEMS
      "${base}" "${base}/torch" "${base}/libtorch" ${site_packages}
      "${base}/../.." "${base}/../../..")
    if(EXISTS "${folder}/include/ATen/ATen.h" AND
       EXISTS "${folder}/lib/${CMAKE_SHARED_LIBRARY_PREFIX}torch_cpu${CMAKE_SHARED_LIBRARY_SUFFIX}")
      file(REAL_PATH "${folder}" folder)
      set(${out_var} "${folder}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Sets out_var to the version of the LibTorch with these include folders, or to an empty string.
function(_libtorch_read_version include_dirs out_var)
  set(${out_var} "" PARENT_SCOPE)
  foreach(include_dir IN LISTS include_dirs)
    foreach(header IN ITEMS
        torch/headeronly/version.h torch/csrc/api/include/torch/version.h torch/version.h)
      if(EXISTS "${include_dir}/${header}")
        file(STRINGS "${include_dir}/${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
        if("${lines}" MATCHES "MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+)")
          set(${out_var} "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}" PARENT_SCOPE)
          return()
        endif()
      endif()
    endforeach()
    foreach(file IN ITEMS "${include_dir}/../version.py" "${include_dir}/../build-version")
      if(EXISTS "${file}")
        file(READ "${file}" text)
        if(text MATCHES "(__version__ = '|^)([0-9]+\\.[0-9]+\\.[0-9]+)")
          set(${out_var} "${CMAKE_MATCH_2}" PARENT_SCOPE)
          return()
        endif()
      endif()
    endforeach()
  endforeach()
endfunction()

# Sets out_var to the libraries that a program linked to `library` would miss when it starts.
function(_libtorch_missing_libraries library out_var)
  find_program(LibTorch_LDD ldd)
  mark_as_advanced(LibTorch_LDD)
  set(${out_var} "" PARENT_SCOPE)
  if(NOT LibTorch_LDD)
    return()
  endif()
  execute_process(COMMAND "${LibTorch_LDD}" "${library}"
    OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    set(${out_var} "${library}" PARENT_SCOPE)
    return()
  endif()
  string(REGEX MATCHALL "[^ \t\n]+ => not found" missing "${output}")
  list(TRANSFORM missing REPLACE " => not found" "")
  list(REMOVE_DUPLICATES missing)
  set(${out_var} "${missing}" PARENT_SCOPE)
endfunction()

# Where LibTorch is: sets LibTorch_ROOT_DIR.
function(_libtorch_search)
  set(LibTorch_ROOT_DIR "" PARENT_SCOPE)

  foreach(root IN ITEMS "${LibTorch_ROOT}" "$ENV{LibTorch_ROOT}")
    if(root)
      _libtorch_locate("${root}" found)
      if(NOT found)
        set(LibTorch_REASON "LibTorch_ROOT is '${root}', which holds no LibTorch: it must be the \
torch folder of a PyTorch wheel, an unpacked libtorch zip, or a Python environment" PARENT_SCOPE)
      endif()
      set(LibTorch_ROOT_DIR "${found}" PARENT_SCOPE)
      return()
    endif()
  endforeach()

  cmake_path(CONVERT "$ENV{CMAKE_PREFIX_PATH}" TO_CMAKE_PATH_LIST env_prefixes)
  foreach(base IN LISTS CMAKE_PREFIX_PATH env_prefixes LibTorch_HINTS)
    _libtorch_locate("${base}" found)
    if(found)
      set(LibTorch_ROOT_DIR "${found}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  foreach(base IN ITEMS "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}" "${PROJECT_SOURCE_DIR}/.venv"
      "${CMAKE_SOURCE_DIR}/.venv")
    _libtorch_locate("${base}" found)
    if(found)
      set(LibTorch_ROOT_DIR "${found}" PARENT_SCOPE)
      return()
    endif()
  endforeach()

  find_program(LibTorch_PYTHON NAMES python3 python)
  mark_as_advanced(LibTorch_PYTHON)
  if(LibTorch_PYTHON)
    execute_process(
      COMMAND "${LibTorch_PYTHON}" -c "import importlib.util as u; s = u.find_spec('torch'); \
print(list(s.submodule_search_locations)[0] if s and s.submodule_search_locations else '', end='')"
      OUTPUT_VARIABLE base ERROR_QUIET)
    _libtorch_locate("${base}" found)
    if(found)
      set(LibTorch_ROOT_DIR "${found}" PARENT_SCOPE)
      return()
    endif()
  endif()
  set(LibTorch_REASON "no PyTorch wheel and no libtorch folder was found. Run scripts/setup.sh in \
Reprise's sources, or set LibTorch_ROOT to the torch folder of a wheel, a libtorch folder or a \
Python environment" PARENT_SCOPE)
endfunction()

# Makes LibTorch::LibTorch of the LibTorch in LibTorch_ROOT_DIR.
function(_libtorch_make_target)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  foreach(name IN ITEMS c10 torch_cpu)
    add_library(LibTorch::${name} SHARED IMPORTED)
    set(file "${CMAKE_SHARED_LIBRARY_PREFIX}${name}${CMAKE_SHARED_LIBRARY_SUFFIX}")
    set_target_properties(LibTorch::${name} PROPERTIES
      IMPORTED_LOCATION "${LibTorch_LIBRARY_DIR}/${file}")
  endforeach()
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${LibTorch_INCLUDE_DIRS})
  target_compile_features(LibTorch::LibTorch INTERFACE cxx_std_20)
  target_link_libraries(LibTorch::LibTorch INTERFACE LibTorch::torch_cpu LibTorch::c10)
  # LibTorch's own libraries know where theirs are ($ORIGIN): the linker need not.
  target_link_options(LibTorch::LibTorch INTERFACE "LINKER:--allow-shlib-undefined")
  if(LibTorch_WITH_CUDA)
    # Nothing refers to these by name; they register themselves when loaded.
    set(lib "${LibTorch_LIBRARY_DIR}/lib")
    target_link_libraries(LibTorch::LibTorch INTERFACE
      "-Wl,--push-state,--no-as-needed,${lib}torch_cuda.so,${lib}c10_cuda.so,${lib}torch.so,--pop-state")
  endif()
endfunction()

set(LibTorch_REASON "")
set(LibTorch_WITH_CUDA OFF)

if(TARGET LibTorch::LibTorch)
  # A second find_package: the results below still stand for the first.
  get_target_property(LibTorch_INCLUDE_DIRS LibTorch::LibTorch INTERFACE_INCLUDE_DIRECTORIES)
  get_target_property(LibTorch_ROOT_DIR LibTorch::LibTorch LibTorch_ROOT_DIR)
  get_target_property(LibTorch_WITH_CUDA LibTorch::LibTorch LibTorch_WITH_CUDA)
  _libtorch_read_version("${LibTorch_INCLUDE_DIRS}" LibTorch_VERSION)
elseif(TARGET torch)
  get_target_property(LibTorch_INCLUDE_DIRS torch INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT LibTorch_INCLUDE_DIRS)
    set(LibTorch_INCLUDE_DIRS "${TORCH_INCLUDE_DIRS}")
  endif()
  _libtorch_read_version("${LibTorch_INCLUDE_DIRS}" LibTorch_VERSION)
  if(NOT LibTorch_VERSION)
    set(LibTorch_VERSION "${Torch_VERSION}")
  endif()
  list(GET LibTorch_INCLUDE_DIRS 0 LibTorch_ROOT_DIR)
  cmake_path(GET LibTorch_ROOT_DIR PARENT_PATH LibTorch_ROOT_DIR)
  if(TARGET torch_cuda OR TARGET torch::torch_cuda)
    set(LibTorch_WITH_CUDA ON)
  endif()
else()
  _libtorch_search()
  if(LibTorch_ROOT_DIR)
    set(LibTorch_LIBRARY_DIR "${LibTorch_ROOT_DIR}/lib")
    set(LibTorch_INCLUDE_DIRS
      "${LibTorch_ROOT_DIR}/include" "${LibTorch_ROOT_DIR}/include/torch/csrc/api/include")
    _libtorch_read_version("${LibTorch_INCLUDE_DIRS}" LibTorch_VERSION)

    set(_libtorch_cuda_library "${LibTorch_LIBRARY_DIR}/libtorch_cuda.so")
    if(NOT EXISTS "${_libtorch_cuda_library}")
      set(_libtorch_missing "${_libtorch_cuda_library}")
    elseif(LibTorch_CUDA STREQUAL "AUTO")
      _libtorch_missing_libraries("${_libtorch_cuda_library}" _libtorch_missing)
    else()
      set(_libtorch_missing "")
    endif()
    if(LibTorch_CUDA AND NOT _libtorch_missing)
      set(LibTorch_WITH_CUDA ON)
    elseif(LibTorch_CUDA AND NOT LibTorch_CUDA STREQUAL "AUTO")
      set(LibTorch_REASON "LibTorch_CUDA is ${LibTorch_CUDA}, but there is no ${_libtorch_missing}")
    elseif(LibTorch_CUDA AND EXISTS "${_libtorch_cuda_library}" AND NOT LibTorch_FIND_QUIETLY)
      list(JOIN _libtorch_missing ", " _libtorch_missing)
      message(STATUS "LibTorch: CPU only (libtorch_cuda.so could not load: ${_libtorch_missing})")
    endif()
  endif()
endif()

if(LibTorch_VERSION AND LibTorch_VERSION VERSION_LESS LibTorch_MINIMUM_VERSION)
  message(FATAL_ERROR
    "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} is too old: "
    "${LibTorch_MINIMUM_VERSION} or newer is required.\n"
    "hint: set LibTorch_ROOT to a newer one, or run scripts/setup.sh in Reprise's sources")
endif()

include(FindPackageHandleStandardArgs)
if(LibTorch_REASON)
  set(LibTorch_ROOT_DIR "")
endif()
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_ROOT_DIR LibTorch_INCLUDE_DIRS LibTorch_VERSION
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "${LibTorch_REASON}")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  if(TARGET torch)
    add_library(LibTorch::LibTorch INTERFACE IMPORTED)
    target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${LibTorch_INCLUDE_DIRS})
    target_link_libraries(LibTorch::LibTorch INTERFACE torch)
    target_link_options(LibTorch::LibTorch INTERFACE "LINKER:--allow-shlib-undefined")
  else()
    _libtorch_make_target()
  endif()
  set_target_properties(LibTorch::LibTorch PROPERTIES
    LibTorch_ROOT_DIR "${LibTorch_ROOT_DIR}"
    LibTorch_WITH_CUDA "${LibTorch_WITH_CUDA}")
endif()
