#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/opencl/opencl_helpers.h"

namespace snug {

/// An argument of a kernel. Memory stands for two: where a block of memory begins, and a long, the
/// element of it that the argument points to.
enum class OpenClKind : std::uint8_t { Memory, Int, Long, Float, Double };

/// A kernel in OpenCL C 1.2. Its first argument is `const int go`: with 0 it returns at once, by
/// which a device shows what it lacks before anything has run.
struct OpenClText {
  std::string name;                                 // for people: "snug_add_tanh_f32_r2"
  OpenClHelpers helpers;                            // what its body uses
  std::string body;                                 // $NAME: its name in the program
  std::vector<OpenClKind> args;                     // those behind `go`
  std::array<std::uint32_t, 3> local = {64, 1, 1};  // items of a work group
};

/// Every `name` in a text becomes `value`, which is not looked at again.
inline void put(std::string& text, std::string_view name, std::string_view value) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size())
    text.replace(at, name.size(), value);
}

}  // namespace snug
