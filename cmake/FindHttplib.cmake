# Finds cpp-httplib as Debian compiles it and defines Httplib::Httplib. Installed with the package,
# whose longhaul::run needs it too. The definitions are those that the library was compiled with.
include(FindPackageHandleStandardArgs)
find_path(Httplib_INCLUDE_DIR httplib.h)
find_library(Httplib_LIBRARY cpp-httplib)
mark_as_advanced(Httplib_INCLUDE_DIR Httplib_LIBRARY)
find_package_handle_standard_args(Httplib DEFAULT_MSG Httplib_LIBRARY Httplib_INCLUDE_DIR)
if(Httplib_FOUND AND NOT TARGET Httplib::Httplib)
  add_library(Httplib::Httplib UNKNOWN IMPORTED)
  set_target_properties(Httplib::Httplib PROPERTIES
                        IMPORTED_LOCATION "${Httplib_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${Httplib_INCLUDE_DIR}"
                        INTERFACE_COMPILE_DEFINITIONS
                        "CPPHTTPLIB_OPENSSL_SUPPORT;CPPHTTPLIB_ZLIB_SUPPORT;CPPHTTPLIB_BROTLI_SUPPORT"
                        INTERFACE_LINK_LIBRARIES "ssl;crypto")
endif()
