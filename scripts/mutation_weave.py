"""Many mutants in one program: a function's body is there once more for each mutant in it, and the
environment says which of them runs. So a mutant costs no compilation and no link of its own.

LONGHAUL_MUTANT=N runs mutant N, 0 none; with -1 none runs, and a GoogleTest binary prints after
each test which mutants stand in functions that the test called.

What is computed at compile time is never mutated.
"""
import bisect
import collections
import os
import re

import mutation

MOST = 4096  # mutants in one program
HEADER = "longhaul_mutants.h"
RUNTIME = f"""#pragma once
#include <atomic>
#include <cstdlib>
#include <type_traits>
namespace longhaul_mutants {{
inline std::atomic<bool> reached[{MOST}];
inline int from_environment() {{
  const char* text = std::getenv("LONGHAUL_MUTANT");
  return text ? std::atoi(text) : 0;
}}
inline bool chosen(int number) {{
  static const int one = from_environment();
  if (one < 0) reached[number].store(true, std::memory_order_relaxed);
  return one == number;
}}
constexpr bool is(int number) {{ return !std::is_constant_evaluated() && chosen(number); }}
}}  // namespace longhaul_mutants
"""
LISTENER = f"""#include <cstdio>
#include <gtest/gtest.h>
#include "{HEADER}"
namespace {{
struct TellsReached : testing::EmptyTestEventListener {{
  void OnTestEnd(const testing::TestInfo& test) override {{
    std::printf("\\n[  REACHED ] %s.%s", test.test_suite_name(), test.name());
    for (int number = 0; number < {MOST}; ++number)
      if (longhaul_mutants::reached[number].exchange(false)) std::printf(" %d", number);
    std::printf("\\n");
  }}
}};
const bool listens = [] {{
  if (longhaul_mutants::from_environment() < 0)
    testing::UnitTest::GetInstance()->listeners().Append(new TellsReached);
  return true;
}}();
}}  // namespace
"""
REACHED = re.compile(r"^\[  REACHED \] (\S+)((?: \d+)*)$", re.M)
# Adds the listener to each test binary; for CMAKE_PROJECT_INCLUDE.
PROJECT = """function(mutants_listen folder)
  get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(child IN LISTS folders)
    mutants_listen("${child}")
  endforeach()
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(GTest_FOUND AND type STREQUAL "EXECUTABLE" AND target MATCHES "^longhaul_.*_test$")
      target_sources(${target} PRIVATE "%(folder)s/longhaul_mutants.cpp")
    endif()
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL mutants_listen "${CMAKE_SOURCE_DIR}")
"""
AT = re.compile(r"([\w./+-]+):(\d+):\d+:(.*)")


def outermost_body(source, i):
    """The { of the function in whose body token i stands; of a lambda, the function around it."""
    found, at = -1, source.tokens[i].parent
    while at >= 0:
        if source.at(at) == "{":
            found = at
            if not source.tokens[at].code:
                break
        at = source.tokens[at].parent
    return found


def weave(text, mutants):
    """(the file with all of them in it, [(first line, last line, number)]) of {number: edits}."""
    source = mutation.Source(text)
    starts = [token.start for token in source.tokens]
    bodies = collections.defaultdict(list)
    for number, edits in sorted(mutants.items()):
        i = bisect.bisect_left(starts, edits[0][0])
        bodies[outermost_body(source, i)].append(number)
    # A function of a local type stands in a body, too; what has a body around it joins that.
    spans = sorted((source.tokens[i].end, source.tokens[source.tokens[i].match].start, numbers)
                   for i, numbers in bodies.items())
    joined = []
    for first, last, numbers in spans:
        if joined and first < joined[-1][1]:
            joined[-1][2].extend(numbers)
        else:
            joined.append((first, last, list(numbers)))
    out, regions, line, at = [], [], 1, 0

    def put(piece):
        nonlocal line
        out.append(piece)
        line += piece.count("\n")

    put(f'#include "{HEADER}"\n')
    for first, last, numbers in joined:
        put(text[at:first] + "\n")
        for number in numbers:
            put(f"if (longhaul_mutants::is({number})) {{")
            begin = line
            put(mutation.apply(text[first:last], [(a - first, b - first, new)
                                                  for a, b, new in mutants[number]]))
            regions.append((begin, line, number))
            put("\n} else ")
        put("{" + text[first:last] + "}\n")
        at = last
    put(text[at:])
    return "".join(out), regions


def blamed(output, regions):
    """The mutants that the compiler complains of, by {path: regions}; else those it mentions."""
    errors, mentioned = set(), set()
    for path, row, said in AT.findall(output):
        for known in (p for p in regions if path == p or path.endswith("/" + p)):
            numbers = {n for first, last, n in regions[known] if first <= int(row) <= last}
            mentioned |= numbers
            if re.match(r" (?:fatal )?error:", said):
                errors |= numbers
    return errors or mentioned


SHARES = {False: "LONGHAUL_GATE", True: "LONGHAUL_SHARE"}  # by --nightly: base/testing/effort.h


def write_runtime(folder, share=SHARES[False]):
    """The files that a build of woven sources needs; the flags for CMake. `share`: which cases
    exhaustive tests try."""
    for name, text in ((HEADER, RUNTIME), ("longhaul_mutants.cpp", LISTENER),
                       ("longhaul_mutants.cmake", PROJECT % {"folder": folder})):
        write(os.path.join(folder, name), text)
    return [f"-DCMAKE_CXX_FLAGS_DEBUG=-O1 -D{share} -I{folder}",
            f"-DCMAKE_PROJECT_INCLUDE={folder}/longhaul_mutants.cmake"]


def write(path, text):
    """Writes what is not there yet: what did not change keeps its time, for ninja."""
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    if os.path.exists(path):
        with open(path, "rb") as handle:
            if handle.read() == data:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as handle:
        handle.write(data)
