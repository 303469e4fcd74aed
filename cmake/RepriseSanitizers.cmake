# SPDX-License-Identifier: BSD-3-Clause
# REPRISE_SANITIZERS: a list, as 'address;undefined' or 'thread'.

set(REPRISE_SANITIZERS "" CACHE STRING
  "Sanitizers to build with: any of address, undefined, leak; or thread alone")

foreach(sanitizer IN LISTS REPRISE_SANITIZERS)
  if(NOT sanitizer MATCHES "^(address|undefined|leak|thread)$")
    message(FATAL_ERROR "REPRISE_SANITIZERS: '${sanitizer}' is none of address, undefined, leak, thread")
  endif()
endforeach()
if("thread" IN_LIST REPRISE_SANITIZERS AND
   ("address" IN_LIST REPRISE_SANITIZERS OR "leak" IN_LIST REPRISE_SANITIZERS))
  message(FATAL_ERROR "REPRISE_SANITIZERS: thread excludes address and leak")
endif()
