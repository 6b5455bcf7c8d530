# Which Python is built for, and whether it has torch.

# The Python package's extension: AUTO builds it where a Python with torch is
# found, in the checkout's .venv or on PATH.
set(DT_BUILD_TORCH AUTO CACHE STRING
  "Build the Python package's extension (needs torch): ON, OFF or AUTO")
# Which one is looked up again each time, unless it was named: a folder that
# scripts/demo has configured may be older than .venv.
if(NOT DT_PYTHON OR DT_PYTHON STREQUAL "${DT_PYTHON_FOUND}")
  unset(DT_PYTHON CACHE)
  find_program(DT_PYTHON NAMES python3
    HINTS "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin" NO_CMAKE_SYSTEM_PATH)
  set(DT_PYTHON_FOUND "${DT_PYTHON}" CACHE INTERNAL "What was looked up")
endif()
set(DT_HAS_TORCH "${DT_BUILD_TORCH}")
if(DT_BUILD_TORCH STREQUAL "AUTO")
  set(DT_HAS_TORCH OFF)
  if(DT_PYTHON)
    execute_process(COMMAND "${DT_PYTHON}" -c
      "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"
      RESULT_VARIABLE torch_missing OUTPUT_QUIET ERROR_QUIET)
    if(torch_missing EQUAL 0)
      set(DT_HAS_TORCH ON)
    endif()
  endif()
endif()
