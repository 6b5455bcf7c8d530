# Finds MLIR and its tablegen. `llvm-config-22 --cmakedir` names the folder of
# the Debian packages; -DMLIR_DIR or CMAKE_PREFIX_PATH override it.

find_program(DT_LLVM_CONFIG NAMES llvm-config-22 llvm-config)
if(DT_LLVM_CONFIG)
  execute_process(COMMAND "${DT_LLVM_CONFIG}" --cmakedir
    OUTPUT_VARIABLE DT_LLVM_CMAKEDIR OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND "${DT_LLVM_CONFIG}" --bindir
    OUTPUT_VARIABLE DT_LLVM_BINDIR OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()

# LLVM's own CMake files insist on a lit before they are found.
find_program(DT_LIT NAMES lit llvm-lit HINTS "${DT_LLVM_BINDIR}"
  NO_DEFAULT_PATH)
find_program(DT_LIT NAMES lit llvm-lit)
if(DT_LIT AND NOT LLVM_EXTERNAL_LIT)
  set(LLVM_EXTERNAL_LIT "${DT_LIT}")
endif()

find_package(MLIR 22.1 REQUIRED CONFIG
  HINTS "${DT_LLVM_CMAKEDIR}/../mlir" /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# Targets that see MLIR headers link this; everything else stays free of them.
add_library(DtMLIRHeaders INTERFACE)
# What tablegen makes is no more ours to mend than theirs.
target_include_directories(DtMLIRHeaders SYSTEM INTERFACE
  "${PROJECT_BINARY_DIR}/include" ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_include_directories(DtMLIRHeaders INTERFACE
  "${PROJECT_SOURCE_DIR}/include")
separate_arguments(DT_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(DtMLIRHeaders INTERFACE ${DT_LLVM_DEFINITIONS})

# The parts of MLIR and LLVM that the compiler uses, each before what it needs.
# Their shared libraries have all parts: to load these takes as long as a small
# plan, in each process. They do where there are no static ones. Of MLIR's parts
# the files are taken, as the targets ask for the shared LLVM besides.
set(DT_MLIR_PARTS MLIROptLib MLIRIRDL MLIRBytecodeWriter MLIRDebug MLIRObservers
  MLIRPluginsLib MLIRRemarkStreamer MLIRParser MLIRBytecodeReader MLIRAsmParser
  MLIRPass MLIRInferTypeOpInterface MLIRBytecodeOpInterface MLIRIR MLIRSupport)
set(DT_LLVM_PARTS LLVMRemarks LLVMBitstreamReader LLVMSupport)
set(DT_MLIR_LIBRARIES ${DT_LLVM_PARTS})
foreach(part IN LISTS DT_LLVM_PARTS DT_MLIR_PARTS)
  if(NOT TARGET ${part})
    set(DT_MLIR_LIBRARIES)
    break()
  endif()
endforeach()
if(DT_MLIR_LIBRARIES)
  list(TRANSFORM DT_MLIR_PARTS REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  list(PREPEND DT_MLIR_LIBRARIES ${DT_MLIR_PARTS})
else()
  set(DT_MLIR_LIBRARIES MLIR LLVM)
endif()
target_link_libraries(DtMLIRHeaders INTERFACE ${DT_MLIR_LIBRARIES})

# What mlir_tablegen() reads from the including folder.
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS}
  "${PROJECT_BINARY_DIR}/include")
include_directories("${PROJECT_SOURCE_DIR}/include")
