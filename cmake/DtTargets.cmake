# What every target of this project shares: language level, warnings, output
# folders, ccache and lld.

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(DT_CCACHE ccache)
if(DT_CCACHE)
  # The slack is what ccache asks for to cache what precompiled headers are used
  # in. Build folders beside each other share what they compile alike, since
  # paths are taken relative to them; but for what uses a precompiled header
  # (DT_CCACHE_ALONE): the cache of one would name another checkout's files.
  set(DT_CCACHE_ALONE "${CMAKE_COMMAND}" -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DT_CCACHE_ALONE}
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${DT_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  list(APPEND DT_CCACHE_ALONE "${DT_CCACHE}")
  add_compile_options("$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>")
endif()
# GCC takes a linker's name, not its path, so its folder goes on the search
# path with -B.
find_program(DT_LLD ld.lld HINTS /usr/lib/llvm-22/bin)
if(DT_LLD)
  get_filename_component(DT_LLD_DIR "${DT_LLD}" DIRECTORY)
  add_link_options(-fuse-ld=lld "-B${DT_LLD_DIR}")
endif()

# dt_add_library(name SOURCES... DEPS...): a static library of this project.
# Public headers live in include/dt (compiler) and runtime/include (runtime).
function(dt_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  dt_set_warnings(${name})
endfunction()

function(dt_set_warnings name)
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>")
  # Where several files are compiled as one, GCC takes each for a header: what
  # it uses of its own would be hidden from others that include it.
  if(CMAKE_UNITY_BUILD)
    target_compile_options(${name} PRIVATE
      "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>")
  endif()
  if(DT_WARNINGS_AS_ERRORS)
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
    # What GCC says only after inlining depends on the files that are compiled
    # as one and is often wrong: it is shown and fails nothing.
    foreach(late array-bounds dangling-pointer free-nonheap-object
                 maybe-uninitialized restrict stringop-overflow
                 stringop-overread use-after-free)
      target_compile_options(${name} PRIVATE
        "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-error=${late}>")
    endforeach()
  endif()
endfunction()

# dt_use_mimalloc(name): for what makes many small pieces. Where mimalloc is not
# installed, libc's does the same.
function(dt_use_mimalloc name)
  find_package(mimalloc CONFIG QUIET)
  if(mimalloc_FOUND AND NOT DT_FUZZ)
    target_link_libraries(${name} PRIVATE mimalloc)
    target_compile_definitions(${name} PRIVATE DT_HAS_MIMALLOC)
  endif()
endfunction()

# dt_optimize(name level): as -O1 or -O2 has it, not -O3 as other code in a
# release. For what costs much to compile and is as fast so: code that says what
# is to be done and leaves the work to others. Who shares a precompiled header
# has to have its level, or GCC 12 fails.
function(dt_optimize name level)
  target_compile_options(${name} PRIVATE
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O${level}>")
endfunction()
