# longhaul_embed(OUTPUT file HEADER header FUNCTION name FILES file...)
#
# Writes a C++ source that holds the files as text, so that the program needs nothing beside it:
#   std::span<const TextFile> NAME();     // {name without folder, text}, by name
# HEADER declares that function and TextFile, in namespace longhaul::run. A file that changes makes
# CMake run again.
function(longhaul_embed)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUTPUT;HEADER;FUNCTION" "FILES")
  list(SORT arg_FILES)
  set(entries "")
  foreach(path IN LISTS arg_FILES)
    get_filename_component(name "${path}" NAME)
    file(READ "${path}" text)
    string(APPEND entries "    {\"${name}\", R\"longhaul(${text})longhaul\"},\n")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${arg_FILES})
  file(CONFIGURE OUTPUT "${arg_OUTPUT}" @ONLY CONTENT [[
// Written by CMake from the files it names; edit those.
#include "@arg_HEADER@"

namespace longhaul::run {

std::span<const TextFile> @arg_FUNCTION@() {
  static constexpr TextFile kFiles[] = {
@entries@  };
  return kFiles;
}

}  // namespace longhaul::run
]])
endfunction()
