# What the GPU parts need, each on where it is found: nvcc for DT_WITH_CUDA,
# NCCL's header for DT_WITH_NCCL (its library is loaded when it is first used).
# -DDT_NCCL_ROOT=DIR names the folder that holds include/nccl.h and
# lib/libnccl.so.2, such as that of NCCL's wheel.

set(DT_WITH_CUDA AUTO CACHE STRING
  "Build what runs plans on GPUs (needs nvcc): ON, OFF or AUTO")
set(DT_WITH_NCCL AUTO CACHE STRING
  "Build the NCCL transport (needs CUDA and nccl.h): ON, OFF or AUTO")
set(DT_NCCL_ROOT "" CACHE PATH "Folder with NCCL's include and lib")

# Why there is no CUDA; empty where there is.
set(cuda_missing "")
if(NOT DT_WITH_CUDA)
  set(cuda_missing "DT_WITH_CUDA is ${DT_WITH_CUDA}")
else()
  find_program(DT_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin)
  # Data-center GPUs of today; -DCMAKE_CUDA_ARCHITECTURES names others.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  # An nvcc that cannot compile, with this host compiler say, is as good as none.
  include(CheckLanguage)
  if(DT_NVCC)
    set(ENV{CUDACXX} "${DT_NVCC}")
    check_language(CUDA)
  endif()
  if(NOT DT_NVCC)
    set(cuda_missing "no nvcc on PATH or in /usr/local/cuda/bin")
  elseif(NOT CMAKE_CUDA_COMPILER)
    set(cuda_missing "${DT_NVCC} does not compile a program")
  else()
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
    if(NOT TARGET CUDA::cudart_static)
      set(cuda_missing "no libcudart_static beside ${DT_NVCC}")
    endif()
  endif()
endif()

# The wheels beside the torch that is built against.
set(gpu_wheels "")
if(DT_PYTHON)
  execute_process(COMMAND "${DT_PYTHON}" -c
    "import sysconfig; print(sysconfig.get_path('purelib'))"
    OUTPUT_VARIABLE gpu_wheels OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(APPEND gpu_wheels "/nvidia")
endif()

set(nccl_missing "")
if(NOT DT_WITH_NCCL)
  set(nccl_missing "DT_WITH_NCCL is ${DT_WITH_NCCL}")
elseif(cuda_missing)
  set(nccl_missing "no CUDA")
else()
  find_path(DT_NCCL_INCLUDE nccl.h
    HINTS "${DT_NCCL_ROOT}" "${gpu_wheels}/nccl" PATH_SUFFIXES include)
  find_library(DT_NCCL_LIBRARY NAMES libnccl.so.2 nccl
    HINTS "${DT_NCCL_ROOT}" "${gpu_wheels}/nccl" PATH_SUFFIXES lib lib64)
  if(NOT DT_NCCL_INCLUDE)
    set(nccl_missing "no nccl.h; DT_NCCL_ROOT may name its folder")
  endif()
endif()

# nvCOMP's library is loaded when it is first used, like NCCL's; builds need
# nothing of it.
if(NOT cuda_missing)
  find_library(DT_NVCOMP_LIBRARY NAMES libnvcomp.so.6
    HINTS "${gpu_wheels}/libnvcomp" PATH_SUFFIXES lib lib64)
endif()
if(DT_NVCOMP_LIBRARY)
  message(STATUS "nvCOMP: ${DT_NVCOMP_LIBRARY}")
endif()

foreach(part CUDA NCCL)
  string(TOLOWER "${part}_missing" why)
  if("${${why}}" STREQUAL "")
    set(DT_HAS_${part} ON)
    message(STATUS "${part}: built")
  elseif(DT_WITH_${part} STREQUAL "ON")
    message(FATAL_ERROR "DT_WITH_${part} is ON: ${${why}}")
  else()
    set(DT_HAS_${part} OFF)
    message(STATUS "${part}: left out (${${why}})")
  endif()
endforeach()

# dt_link_cuda(target): CUDA's runtime for a program or module; its libraries
# leave open which one.
function(dt_link_cuda target)
  target_link_libraries(${target} PRIVATE CUDA::cudart_static)
endfunction()
