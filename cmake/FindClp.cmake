# Finds COIN-OR's linear-programming solver and defines Clp::Clp. Installed with the package, whose
# longhaul::flow needs it too. Only the C interface, <coin/Clp_C_Interface.h>, is used.
include(FindPackageHandleStandardArgs)
find_path(Clp_INCLUDE_DIR coin/Clp_C_Interface.h)
find_library(Clp_LIBRARY Clp)
find_library(Clp_CoinUtils_LIBRARY CoinUtils)
mark_as_advanced(Clp_INCLUDE_DIR Clp_LIBRARY Clp_CoinUtils_LIBRARY)
find_package_handle_standard_args(Clp DEFAULT_MSG Clp_LIBRARY Clp_CoinUtils_LIBRARY
                                  Clp_INCLUDE_DIR)
if(Clp_FOUND AND NOT TARGET Clp::Clp)
  add_library(Clp::Clp UNKNOWN IMPORTED)
  set_target_properties(Clp::Clp PROPERTIES
                        IMPORTED_LOCATION "${Clp_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${Clp_INCLUDE_DIR}"
                        INTERFACE_LINK_LIBRARIES "${Clp_CoinUtils_LIBRARY}")
endif()
