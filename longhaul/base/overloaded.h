#pragma once
namespace longhaul {

// A visitor of a std::variant, made of one lambda for each alternative.
template <class... Case>
struct Overloaded : Case... {
  using Case::operator()...;
};
template <class... Case>  // clang 14 needs the guide that C++20 makes superfluous
Overloaded(Case...)->Overloaded<Case...>;

}  // namespace longhaul
