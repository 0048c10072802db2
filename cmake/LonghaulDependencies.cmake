# Every dependency comes from the system's packages (scripts/setup names them and says what for);
# nothing is downloaded while CMake configures.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(xxhash REQUIRED)  # cmake/Findxxhash.cmake: the library ships no CMake package
find_package(Clp REQUIRED)     # cmake/FindClp.cmake
find_package(Cbc REQUIRED)     # cmake/FindCbc.cmake; seen by longhaul/flow alone
find_package(OpenSSL 3.0 REQUIRED)  # seen by longhaul/secure alone
find_package(SQLite3 REQUIRED)  # seen by longhaul/store alone
find_package(Boost REQUIRED)  # headers alone, seen by longhaul/run/run_log.cpp alone
find_package(Eigen3 REQUIRED)  # headers alone, seen by longhaul/sync/grouping alone
find_path(asio_INCLUDE_DIR asio.hpp REQUIRED)  # headers alone, seen by longhaul/net/tcp.cpp alone
mark_as_advanced(asio_INCLUDE_DIR)

if(LONGHAUL_TORCH)
  find_package(CLI11 REQUIRED)
  find_package(Httplib REQUIRED)  # cmake/FindHttplib.cmake; seen by longhaul/run/focus alone
  if(LONGHAUL_TORCH_DIR)  # its own find_package(Torch) wants a CUDA toolkit, if it knows CUDA
    add_library(torch INTERFACE IMPORTED)
    target_include_directories(torch SYSTEM INTERFACE
      "${LONGHAUL_TORCH_DIR}/include" "${LONGHAUL_TORCH_DIR}/include/torch/csrc/api/include")
    foreach(part torch torch_cpu c10)
      find_library(LONGHAUL_TORCH_${part} ${part} PATHS "${LONGHAUL_TORCH_DIR}/lib"
                   NO_DEFAULT_PATH REQUIRED)
      target_link_libraries(torch INTERFACE "${LONGHAUL_TORCH_${part}}")
    endforeach()
    list(APPEND CMAKE_INSTALL_RPATH "${LONGHAUL_TORCH_DIR}/lib")
  else()
    find_package(Torch REQUIRED)
  endif()
  if(LONGHAUL_PYTHON_PACKAGE)
    if(NOT Python_EXECUTABLE)
      set(Python_EXECUTABLE /usr/bin/python3)  # Debian's, as the scripts; a wheel names another
    endif()
    set(PYBIND11_FINDPYTHON ON)
    find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
    find_package(pybind11 REQUIRED)  # seen by python/ alone
  endif()
endif()
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
  include(GoogleTest)
endif()
if(LONGHAUL_BENCH)
  find_package(benchmark REQUIRED)
  if(LONGHAUL_SIMGRID)
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(simgrid REQUIRED IMPORTED_TARGET simgrid)
  endif()
endif()
