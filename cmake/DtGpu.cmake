# What the GPU parts need, each on where it is found: nvcc for DT_WITH_CUDA,
# NCCL's header and library for DT_WITH_NCCL. -DDT_NCCL_ROOT=DIR names the folder
# that holds include/nccl.h and lib/libnccl.so*, such as that of NCCL's wheel.

find_program(DT_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin)
if(DT_NVCC AND NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${DT_NVCC}")
endif()
set(DT_WITH_CUDA AUTO CACHE STRING
  "Build what runs plans on GPUs (needs nvcc): ON, OFF or AUTO")
if(DT_WITH_CUDA STREQUAL "AUTO")
  set(DT_WITH_CUDA OFF)
  if(DT_NVCC)
    set(DT_WITH_CUDA ON)
  endif()
endif()

if(DT_WITH_CUDA)
  # Data-center GPUs of today; -DCMAKE_CUDA_ARCHITECTURES names others.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)

  file(GLOB nccl_wheels LIST_DIRECTORIES true
    "${CMAKE_CURRENT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/nccl")
  set(DT_NCCL_ROOT "" CACHE PATH "Folder with NCCL's include and lib")
  find_path(DT_NCCL_INCLUDE nccl.h
    HINTS "${DT_NCCL_ROOT}" ${nccl_wheels} PATH_SUFFIXES include)
  find_library(DT_NCCL_LIBRARY NAMES nccl libnccl.so.2
    HINTS "${DT_NCCL_ROOT}" ${nccl_wheels} PATH_SUFFIXES lib lib64)
endif()
set(DT_WITH_NCCL AUTO CACHE STRING
  "Build the NCCL transport (needs CUDA, nccl.h, libnccl): ON, OFF or AUTO")
if(DT_WITH_NCCL STREQUAL "AUTO")
  set(DT_WITH_NCCL OFF)
  if(DT_WITH_CUDA AND DT_NCCL_INCLUDE AND DT_NCCL_LIBRARY)
    set(DT_WITH_NCCL ON)
  endif()
endif()
if(DT_WITH_NCCL AND NOT (DT_WITH_CUDA AND DT_NCCL_INCLUDE AND DT_NCCL_LIBRARY))
  message(FATAL_ERROR "DT_WITH_NCCL needs DT_WITH_CUDA, nccl.h and libnccl: set "
    "DT_NCCL_ROOT to the folder with include/nccl.h and lib/libnccl.so.2")
endif()
