// longhaul_facts traces [INDEX SHARES] | messages | wire | job-file
#include <limits>
#include <string_view>

#include "longhaul/net/frame.h"
#include "longhaul/run/job/reference.h"
#include "tests/facts/facts.h"
#include "tests/message_fields.h"
#include "tests/message_table.h"

namespace longhaul::facts {
namespace {

void print_messages() {
  for_each_message([]<class M>(std::string_view family) {
    fmt::print("{} {} kind: {}\n", family, M::kName, M::kKind);
    M message{};
    int number = 0;
    M::fields(message, [&]<class Member>(const Field& f, Member&) {
      fmt::print("{} {} {} {}: {} [{}]\n", family, M::kName, ++number, f.name, type_of<Member>(),
                 bounds(f));
    });
  });
}

// Fills each field with another value, none of them its default.
class Golden {
 public:
  template <class T>
  void fill(const Field& field, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = true;
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      fill(field, number);
      value = T(number);
    } else if constexpr (std::is_arithmetic_v<T>) {
      ++number_;
      value = std::is_floating_point_v<T> ? T(number_ + 0.25) : T(0x0102030405060708u * number_);
      const double least = std::max(field.min, double(std::numeric_limits<T>::lowest()));
      const double most = std::min(field.max, double(std::numeric_limits<T>::max()));
      if (double(value) < least || double(value) > most)
        value = T(least + std::fmod(number_, most - least + 1));
    } else if constexpr (Fielded<T>) {
      T::fields(value, [this](const Field& f, auto& member) { this->fill(f, member); });
    } else {
      value.resize(3);
      for (auto& element : value) {
        typename T::value_type one{};
        fill(Field{.name = field.name}, one);
        element = one;
      }
    }
  }

 private:
  std::uint32_t number_ = 0;
};

void print_bytes(std::string_view name, std::span<const std::byte> bytes) {
  fmt::print("{}:{}", name, bytes.empty() ? "" : " ");
  for (const std::byte byte : bytes) fmt::print("{:02x}", unsigned(byte));
  fmt::print("\n");
}

void print_wire() {
  for_each_message([]<class M>(std::string_view family) {
    M message{};
    Golden golden;
    golden.fill(Field{.name = "message"}, message);
    const Buffer bytes = to_wire(message);
    LH_CHECK(from_wire<M>(bytes));
    print_bytes(fmt::format("{} {}", family, M::kName), bytes);
  });
  const Payload text(share(Buffer(20, std::byte(0x5a))));
  net::Frame frame =
      net::message_frame({Path().child(1).child(2), 7, 5, text, text}, {.priority = 3, .order = 9});
  print_bytes("frame header", net::seal(frame));
}

int run(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const auto number = [&](int at) { return unsigned(std::strtoul(argv[at], nullptr, 10)); };
  if (what == "traces" && (argc == 2 || (argc == 4 && number(3) > 0)))
    print_traces(argc == 4 ? number(2) : 0, argc == 4 ? number(3) : 1);
  else if (what == "messages" && argc == 2)
    print_messages();
  else if (what == "wire" && argc == 2)
    print_wire();
  else if (what == "job-file" && argc == 2)
    fmt::print("{}", run::job_file_reference());
  else
    return fmt::print(stderr,
                      "usage: longhaul_facts traces [INDEX SHARES] | messages | wire | "
                      "job-file\n"),
           2;
  return 0;
}

}  // namespace
}  // namespace longhaul::facts

int main(int argc, char** argv) { return longhaul::facts::run(argc, argv); }
