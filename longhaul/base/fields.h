#pragma once
// fields(): one list of a struct's members, written once. The wire encoder and its bounded decoder
// (base/wire.h), the reader of job files (base/settings.h), the printer, the fuzzer's table and the
// documentation all use it.
//
//   struct Config {
//     std::uint32_t steps = 20;
//     static void fields(auto& self, auto&& visit) {
//       LONGHAUL_KEY(steps, "local steps between synchronisations", .min = 1);
//     }
//   };
//
// LONGHAUL_FIELD(steps, ...) is visit(Field{.name = "steps", ...}, self.steps); LONGHAUL_KEY is the
// same with the doc as its second argument. For states and messages with only names and limits,
// LONGHAUL_FIELDS(steps, (round, .max = 64)) in the struct is the whole function.
#include <limits>
#include <string_view>
#include <vector>

namespace longhaul {

struct Field {
  std::string_view name;
  std::string_view doc = {};
  // Numbers: the allowed closed range. Strings, and lists on the wire: `max` is the maximum number
  // of elements from a peer (default: kDefaultMaxElements). Lists in job files: the range, the
  // choices and `positive` hold for each element; the list has at most kDefaultMaxElements of them.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string_view> choices = {};  // strings: the allowed names, if not empty
  std::string_view unit = {};
  bool positive = false;  // numbers: 0 itself is refused
  bool local = false;     // job files: a path, address or output; sites need not agree on it
  // Job files: a string may be written as a whole number, a list of strings as one string.
  bool lenient = false;
};

inline constexpr double kDefaultMaxElements = 65536;

namespace detail {
struct AnyVisitor {
  template <class T>
  void operator()(const Field&, T&) const {}
};
}  // namespace detail

template <class T>
concept Fielded = requires(T& value) {
  T::fields(value, detail::AnyVisitor{});
};

}  // namespace longhaul

// Visits one member, in a function fields(self, visit). The rest are designated initialisers of
// Field.
#define LONGHAUL_FIELD(member, ...) \
  visit(::longhaul::Field{.name = #member __VA_OPT__(, ) __VA_ARGS__}, self.member)
#define LONGHAUL_KEY(member, text, ...) \
  LONGHAUL_FIELD(member, .doc = text __VA_OPT__(, ) __VA_ARGS__)
// Defines the static function fields() that visits these members (up to 64). Each is a name, or in
// parentheses the arguments of LONGHAUL_FIELD.
#define LONGHAUL_FIELDS(...) \
  static void fields(auto& self, auto&& visit) { LONGHAUL_REPEAT(LONGHAUL_VISIT_EACH(__VA_ARGS__)) }
#define LONGHAUL_VISIT_EACH(one, ...)                                   \
  LONGHAUL_SECOND(LONGHAUL_ARGUMENTS one, LONGHAUL_VISIT_NAME, ~)(one); \
  __VA_OPT__(LONGHAUL_VISIT_NEXT LONGHAUL_EMPTY()()(__VA_ARGS__))
#define LONGHAUL_VISIT_NAME(member) LONGHAUL_FIELD(member)
#define LONGHAUL_VISIT_ARGUMENTS(arguments) LONGHAUL_FIELD arguments
// Expands parentheses to two arguments; a name stays one argument.
#define LONGHAUL_ARGUMENTS(...) ~, LONGHAUL_VISIT_ARGUMENTS
#define LONGHAUL_SECOND(...) LONGHAUL_SECOND_OF(__VA_ARGS__)
#define LONGHAUL_SECOND_OF(first, second, ...) second
#define LONGHAUL_VISIT_NEXT() LONGHAUL_VISIT_EACH
#define LONGHAUL_EMPTY()
// Makes the preprocessor rescan as often as the maximum number of members requires.
#define LONGHAUL_REPEAT(...) \
  LONGHAUL_SCAN16(LONGHAUL_SCAN16(LONGHAUL_SCAN16(LONGHAUL_SCAN16(__VA_ARGS__))))
#define LONGHAUL_SCAN16(...) \
  LONGHAUL_SCAN4(LONGHAUL_SCAN4(LONGHAUL_SCAN4(LONGHAUL_SCAN4(__VA_ARGS__))))
#define LONGHAUL_SCAN4(...) LONGHAUL_SCAN(LONGHAUL_SCAN(LONGHAUL_SCAN(LONGHAUL_SCAN(__VA_ARGS__))))
#define LONGHAUL_SCAN(...) __VA_ARGS__
