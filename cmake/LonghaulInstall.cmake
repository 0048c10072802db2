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
              cmake/FindClp.cmake cmake/FindHttplib.cmake
        DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
