# Finds COIN-OR's solver of integer programmes and defines Cbc::Cbc. Installed with the package,
# whose longhaul::flow needs it too. Only the C interface, <coin/Cbc_C_Interface.h>, is used.
include(FindPackageHandleStandardArgs)
find_path(Cbc_INCLUDE_DIR coin/Cbc_C_Interface.h)
find_library(Cbc_SOLVER_LIBRARY CbcSolver)
find_library(Cbc_LIBRARY Cbc)
mark_as_advanced(Cbc_INCLUDE_DIR Cbc_SOLVER_LIBRARY Cbc_LIBRARY)
find_package_handle_standard_args(Cbc DEFAULT_MSG Cbc_SOLVER_LIBRARY Cbc_LIBRARY Cbc_INCLUDE_DIR)
if(Cbc_FOUND AND NOT TARGET Cbc::Cbc)
  add_library(Cbc::Cbc UNKNOWN IMPORTED)
  set_target_properties(Cbc::Cbc PROPERTIES
                        IMPORTED_LOCATION "${Cbc_SOLVER_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${Cbc_INCLUDE_DIR}"
                        INTERFACE_LINK_LIBRARIES "${Cbc_LIBRARY}")
endif()
