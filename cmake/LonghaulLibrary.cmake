# longhaul_library(NAME [DEPS folder...] [PACKAGES target...] [EXCLUDE_SOURCES file...]
#                  [SHARDS n] [FUZZED] [HOT] [NEEDS_TORCH])
#
# One folder, one call. From the folder that calls it:
#   *.cpp              -> static library longhaul_NAME, alias longhaul::NAME (an INTERFACE library
#                         while there is none), linked to longhaul::DEP for every DEP and PACKAGES
#   testing/*.{h,cpp}  -> longhaul_NAME_testing: test doubles, linked to tests only, never installed
#   *_test.cpp         -> one GoogleTest binary longhaul_NAME_test, run in SHARDS processes
# FUZZED: its parsers of bytes or text are fuzzed, so with LONGHAUL_FUZZ its code counts coverage.
# HOT: most of the time of tests is spent in it; LONGHAUL_HOT_OPTIONS compile it and its
# doubles.
# NEEDS_TORCH: its tests are built with LONGHAUL_TESTS=torch, too.
# A sub-folder without a CMakeLists.txt of its own belongs to the library of the folder above it.
# New files are found by the next build; nobody edits a list.
include(GNUInstallDirs)

function(longhaul_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FUZZED;HOT;NEEDS_TORCH" "SHARDS"
                        "DEPS;PACKAGES;EXCLUDE_SOURCES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "longhaul_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(source_patterns *.cpp)
  set(test_patterns *_test.cpp testing/*_test.cpp)
  file(GLOB children LIST_DIRECTORIES true CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*")
  foreach(child IN LISTS children)
    get_filename_component(folder "${child}" NAME)
    if(IS_DIRECTORY "${child}" AND NOT folder STREQUAL "testing"
       AND NOT EXISTS "${child}/CMakeLists.txt")
      list(APPEND source_patterns ${folder}/*.cpp)
      list(APPEND test_patterns ${folder}/*_test.cpp)
    endif()
  endforeach()
  longhaul_glob(sources ${source_patterns})
  longhaul_glob(tests ${test_patterns})
  longhaul_glob(doubles testing/*.cpp)
  list(TRANSFORM arg_EXCLUDE_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  list(REMOVE_ITEM sources ${tests} ${arg_EXCLUDE_SOURCES})
  list(REMOVE_ITEM doubles ${tests})

  list(TRANSFORM arg_DEPS PREPEND "longhaul::" OUTPUT_VARIABLE libraries)
  longhaul_target(longhaul_${name} "${sources}" ${libraries} ${arg_PACKAGES})
  add_library(longhaul::${name} ALIAS longhaul_${name})
  set_target_properties(longhaul_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY LONGHAUL_LIBRARIES longhaul_${name})
  if(LONGHAUL_FUZZ AND arg_FUZZED)
    target_compile_options(longhaul_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(arg_HOT AND sources)
    target_compile_options(longhaul_${name} PRIVATE ${LONGHAUL_HOT_OPTIONS})
  endif()

  if(BUILD_TESTING)
    list(TRANSFORM arg_DEPS REPLACE "(.+)" "longhaul_\\1_testing" OUTPUT_VARIABLE more_doubles)
    longhaul_target(longhaul_${name}_testing "${doubles}"
                    longhaul_${name} ${more_doubles} GTest::gmock rapidcheck)
    if(doubles)
      target_compile_definitions(longhaul_${name}_testing PRIVATE ${LONGHAUL_TEST_DEFINITIONS})
      if(arg_HOT)
        target_compile_options(longhaul_${name}_testing PRIVATE ${LONGHAUL_HOT_OPTIONS})
      endif()
    endif()
    if(tests AND (arg_NEEDS_TORCH OR LONGHAUL_TESTS STREQUAL "all"))
      longhaul_test(longhaul_${name}_test "${tests}" longhaul_${name}_testing
                    SHARDS ${arg_SHARDS})
    endif()
  endif()
endfunction()

# Absolute paths of the files that match; watched, so that a new file makes CMake run again.
function(longhaul_glob variable)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE patterns)
  file(GLOB found CONFIGURE_DEPENDS ${patterns})
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# A static library, or an INTERFACE library if there is nothing to compile.
function(longhaul_target target sources)
  if(sources)
    if(LONGHAUL_UNITY STREQUAL "all")
      longhaul_batches(sources ${target} "${sources}")
    endif()
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${ARGN})
endfunction()

# Files that include the files of a target, LONGHAUL_BATCH each. On two cores a batch of a whole
# folder takes no longer than all the others. CMake's own UNITY_BUILD writes absolute paths, so that
# ccache would not find in one checkout what was built in another.
function(longhaul_batches variable target sources)
  list(TRANSFORM sources REPLACE "^${PROJECT_SOURCE_DIR}/(.+)$" "#include \"\\1\"\n")
  set(batches)
  set(number 0)
  while(sources)
    list(SUBLIST sources 0 ${LONGHAUL_BATCH} batch)
    list(REMOVE_ITEM sources ${batch})
    list(JOIN batch "" text)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_${number}.cpp")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
    list(APPEND batches "${file}")
    math(EXPR number "${number} + 1")
  endwhile()
  set(${variable} ${batches} PARENT_SCOPE)
endfunction()

# A GoogleTest binary, longhaul_FOLDER_test. ctest runs it as FOLDER, or as FOLDER/1 ... FOLDER/n
# where its cases are shared out over SHARDS processes. Suites whose names end in Nightly, which
# measure in real time or take minutes, are FOLDER/nightly, by themselves.
function(longhaul_test target sources)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "SHARDS" "")
  string(REGEX REPLACE "^longhaul_(.+)_test$" "\\1" name "${target}")
  set(files ${sources})
  if(NOT LONGHAUL_UNITY STREQUAL "none")
    longhaul_batches(files ${target} "${sources}")
  endif()
  add_executable(${target} ${files})
  target_compile_options(${target} PRIVATE ${LONGHAUL_TEST_OPTIONS})
  target_compile_definitions(${target} PRIVATE ${LONGHAUL_TEST_DEFINITIONS})
  # g++ takes the else inside of GoogleTest's macros for a dangling one, and what a designated
  # initializer leaves at its default for missing.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-dangling-else -Wno-missing-field-initializers)
  endif()
  target_link_libraries(${target} PRIVATE ${arg_UNPARSED_ARGUMENTS} longhaul_test_main
                        GTest::gmock rapidcheck)
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  # Five frames say who allocated; all thirty take a sixth of a test's time.
  set(environment "")
  if(LONGHAUL_SANITIZE MATCHES address)
    set(environment "ASAN_OPTIONS=malloc_context_size=5;")
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    set(test ${name})
    if(arg_SHARDS GREATER 1)
      set(test ${name}/${shard})
    endif()
    math(EXPR index "${shard} - 1")
    math(EXPR cost "20 + ${arg_SHARDS}")  # before the short tests of the program
    add_test(NAME ${test} COMMAND ${target} --gtest_brief=1 --gtest_filter=-*Nightly.*
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${test} PROPERTIES TIMEOUT 900 COST ${cost} ENVIRONMENT
                         "${environment}GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
  foreach(source IN LISTS sources)
    file(STRINGS "${source}" nightly REGEX "^[A-Z_]+\\([A-Za-z0-9]+Nightly, ")
    if(nightly)
      add_test(NAME ${name}/nightly COMMAND ${target} --gtest_brief=1 --gtest_filter=*Nightly.*
               WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
      set_tests_properties(${name}/nightly PROPERTIES TIMEOUT 1800 RUN_SERIAL ON LABELS nightly)
      break()
    endif()
  endforeach()
endfunction()
