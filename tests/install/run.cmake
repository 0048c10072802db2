# cmake -D build=... -D source=... -P run.cmake: installs the build to a scratch prefix, then
# configures, builds and runs the outside project of this folder against it.
set(scratch "${build}/tests/outside")
file(REMOVE_RECURSE "${scratch}")

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGN}")
  endif()
endfunction()

set(flags "")
if(sanitize)
  set(flags "-fsanitize=${sanitize}")
endif()
step(${CMAKE_COMMAND} --install "${build}" --prefix "${scratch}/prefix")
step(${CMAKE_COMMAND} -G Ninja -S "${source}/tests/install" -B "${scratch}/build"
     -D "CMAKE_PREFIX_PATH=${scratch}/prefix" -D "CMAKE_CXX_COMPILER=${compiler}"
     -D "CMAKE_CXX_COMPILER_LAUNCHER=${launcher}" -D "CMAKE_CXX_FLAGS=${flags}")
step(${CMAKE_COMMAND} --build "${scratch}/build")
step("${scratch}/build/outside")
if(torch AND EXISTS "${source}/examples/embed/CMakeLists.txt")  # a user's own model, outside too
  step(${CMAKE_COMMAND} -G Ninja -S "${source}/examples/embed" -B "${scratch}/embed"
       -D "CMAKE_PREFIX_PATH=${scratch}/prefix" -D "CMAKE_CXX_COMPILER=${compiler}"
       -D "CMAKE_CXX_COMPILER_LAUNCHER=${launcher}")
  step(${CMAKE_COMMAND} --build "${scratch}/embed")
endif()
if(torch AND EXISTS "${scratch}/prefix/bin/longhaul")
  set(train "${scratch}/prefix/bin/longhaul" simulate "${source}/examples/fedavg.toml" --quiet
      --out "${scratch}/run" --force)
  step(${train})  # with the libtorch learner, found in ../lib
  # A copy elsewhere has no library beside it. The build's own folder is not in its run path.
  file(COPY "${scratch}/prefix/bin/longhaul" DESTINATION "${scratch}/alone/bin")
  list(TRANSFORM train REPLACE "${scratch}/prefix/bin" "${scratch}/alone/bin")
  execute_process(COMMAND ${train} RESULT_VARIABLE status ERROR_VARIABLE said)
  if(NOT status EQUAL 2 OR NOT said MATCHES "liblonghaul_torch.so.*LD_LIBRARY_PATH")
    message(FATAL_ERROR "without the library, expected code 2 and the remedy: ${status}, ${said}")
  endif()
endif()
