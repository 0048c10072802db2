# make install, and the package that find_package(longhaul) finds afterwards.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY LONGHAUL_LIBRARIES)
install(TARGETS ${libraries} EXPORT longhaulTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY longhaul/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/longhaul
        FILES_MATCHING PATTERN "*.h" PATTERN "testing" EXCLUDE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/longhaul)
install(EXPORT longhaulTargets NAMESPACE longhaul:: DESTINATION ${package_dir})
configure_package_config_file(cmake/longhaulConfig.cmake.in
                              "${PROJECT_BINARY_DIR}/longhaulConfig.cmake"
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/longhaulConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/longhaulConfig.cmake"
              "${PROJECT_BINARY_DIR}/longhaulConfigVersion.cmake" cmake/Findxxhash.cmake
              cmake/FindClp.cmake cmake/FindCbc.cmake cmake/FindHttplib.cmake
        DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES packaging/longhaul.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES packaging/longhaul.bash RENAME longhaul
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

# make package: what is installed, as a Debian package that names what it needs.
if(LONGHAUL_TORCH)
  set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # not every test has to be built for it
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME longhaul)
  set(CPACK_PACKAGE_VENDOR longhaul)
  set(CPACK_PACKAGE_CONTACT "longhaul maintainers <maintainers@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
  set(CPACK_DEBIAN_PACKAGE_DEPENDS libopenblas0-pthread)  # 16 times the default BLAS
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-numpy, python3-torch")  # of the Python package
  include(CPack)
endif()
