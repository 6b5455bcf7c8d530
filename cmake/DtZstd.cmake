# zstd, which may be missing: then no link is compressed, and plans are written
# and read as they are.
find_path(DT_ZSTD_INCLUDE zstd.h)
find_library(DT_ZSTD_LIBRARY zstd)
if(NOT DT_ZSTD_INCLUDE OR NOT DT_ZSTD_LIBRARY)
  message(STATUS "no zstd: built without compressed links and without "
    "compressed plans")
endif()

# dt_use_zstd(target): its sources see DT_HAS_ZSTD where zstd is there.
function(dt_use_zstd target)
  if(DT_ZSTD_INCLUDE AND DT_ZSTD_LIBRARY)
    target_include_directories(${target} SYSTEM PRIVATE "${DT_ZSTD_INCLUDE}")
    target_link_libraries(${target} PRIVATE "${DT_ZSTD_LIBRARY}")
    target_compile_definitions(${target} PRIVATE DT_HAS_ZSTD)
  endif()
endfunction()
