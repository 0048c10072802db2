# Options, and the compiler flags that hold for every target of the tree.
option(LONGHAUL_TORCH "Build what needs libtorch: learn, run, cli and their tests" ON)
set(LONGHAUL_TORCH_DIR "" CACHE PATH
    "The folder torch of a Python's site-packages, whose libtorch is taken; empty: find_package")
option(LONGHAUL_PYTHON_PACKAGE "Build the Python package's extension (with LONGHAUL_TORCH)" ON)
option(LONGHAUL_WERROR "Treat warnings as errors" OFF)
option(LONGHAUL_BENCH "Build the benchmarks" OFF)
option(LONGHAUL_SIMGRID "Build the benchmark against SimGrid (with LONGHAUL_BENCH)" OFF)
# A third to a half of what a file takes is reading headers, those of the standard library, fmt and
# GoogleTest first. `dev` compiles each file by itself, so that a change costs one file, and so that
# a missing include is found: make nightly builds it.
set(LONGHAUL_UNITY "all" CACHE STRING
    "Compile several files of a folder as one, which is quicker: none, tests or all")
set(LONGHAUL_BATCH 20 CACHE STRING "How many files are compiled as one")
set(LONGHAUL_TESTS "all" CACHE STRING "Tests to build: all, or torch: those that need libtorch")
set(LONGHAUL_TEST_DEFINITIONS "" CACHE STRING "Macros of tests: base/testing/effort.h reads them")
set(LONGHAUL_TEST_OPTIONS -O1 CACHE STRING "Compile options of tests")
set(LONGHAUL_HOT_OPTIONS "" CACHE STRING "Compile options of folders that are HOT")
option(LONGHAUL_ORDERLY_EXIT "The program ends by exit(), which writes counts of lines" OFF)
option(LONGHAUL_FUZZ "Build the fuzzers (clang only)" OFF)
set(LONGHAUL_SANITIZE "" CACHE STRING "Comma-separated list for -fsanitize=, or empty")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INCLUDE_CURRENT_DIR OFF)
add_compile_definitions(LONGHAUL_VERSION="${PROJECT_VERSION}")

# liblonghaul_torch.so holds the lower layers, too, and is found beside the build or in ../lib.
include(GNUInstallDirs)
# `demo` sets it, so that what it compiles before libtorch is there fits what it compiles after.
if(NOT DEFINED CMAKE_POSITION_INDEPENDENT_CODE)
  set(CMAKE_POSITION_INDEPENDENT_CODE ${LONGHAUL_TORCH})
endif()
set(CMAKE_BUILD_RPATH "${PROJECT_BINARY_DIR}")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo" FORCE)
endif()

# LH_CHECK does not depend on NDEBUG; -O2 rather than CMake's -O3 keeps builds quick.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -fvect-cost-model=dynamic")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")

add_compile_options(-Wall -Wextra -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees uninitialised members in every std::variant that is moved (GCC bug 105562).
  add_compile_options(-Wno-maybe-uninitialized)
endif()
if(LONGHAUL_WERROR)
  add_compile_options(-Werror)
endif()

# A run is a function of (job file, seed): no fused multiply-add behind our back, and never
# -ffast-math, so that all x86-64 and ARM builds of one source round alike.
add_compile_options(-ffp-contract=off)

if(NOT LONGHAUL_UNITY MATCHES "^(none|tests|all)$")
  message(FATAL_ERROR "LONGHAUL_UNITY=${LONGHAUL_UNITY}: expected none, tests or all")
endif()

if(NOT LONGHAUL_TESTS MATCHES "^(torch|all)$")
  message(FATAL_ERROR "LONGHAUL_TESTS=${LONGHAUL_TESTS}: expected torch or all")
endif()

if(LONGHAUL_SANITIZE)
  add_compile_options(-fsanitize=${LONGHAUL_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LONGHAUL_SANITIZE})
endif()

find_program(LONGHAUL_CCACHE ccache)
if(LONGHAUL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${LONGHAUL_CCACHE}")
endif()

find_program(LONGHAUL_LLD ld.lld)
if(LONGHAUL_LLD)  # links in a third of the time
  add_link_options(-fuse-ld=lld)
endif()

if(LONGHAUL_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "LONGHAUL_FUZZ needs clang: cmake --preset asan")
endif()
