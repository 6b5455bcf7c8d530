# What a build of fuzz targets shares (DT_FUZZ): every library of this project is
# built with coverage for libFuzzer, AddressSanitizer and
# UndefinedBehaviorSanitizer, whose findings end the program.
#
# Debian's LLVM and MLIR are not instrumented, which costs coverage inside them
# and nothing else: what they hand over by value and by pointer is checked where
# our code touches it. `vptr` is left out, since it would have to know the types
# of objects that they made. Checks at each pointer that is read would be half of
# the time to compile, and AddressSanitizer or the hardware sees what they see;
# that of alignment stays where a file's bytes are read in place.

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "DT_FUZZ needs Clang, found ${CMAKE_CXX_COMPILER_ID}: "
    "configure with --preset fuzz")
endif()

add_compile_options(-O1 -g1 -fno-omit-frame-pointer
  -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr
  -fno-sanitize=alignment,null,object-size,pointer-overflow
  -fno-sanitize-recover=all
  # libstdc++ uses its own deprecated functions.
  -Wno-deprecated-declarations)
add_link_options(-fsanitize=address,undefined -fno-sanitize=vptr)

# dt_add_fuzz_target(name SOURCES... DEPS...): the executable dt-fuzz-NAME,
# which `scripts/fuzz NAME` builds and runs. SOURCES define
# LLVMFuzzerTestOneInput. In test/Fuzz beside them:
#
#   corpus/NAME/    inputs to start from, and those that were found and mended
#   NAME.options    flags of libFuzzer, one a line; -runs=N is what the suite
#                   runs, about a minute on one core
#   NAME.dict       words of the format, if that helps (libFuzzer's -dict)
function(dt_add_fuzz_target name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(dt-fuzz-${name} ${ARG_SOURCES})
  target_link_libraries(dt-fuzz-${name} PRIVATE ${ARG_DEPS})
  target_link_options(dt-fuzz-${name} PRIVATE -fsanitize=fuzzer)
  dt_set_warnings(dt-fuzz-${name})
endfunction()
