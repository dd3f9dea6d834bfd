#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"

/// Messages and hints name what the user writes: each in the language that calls the library.
namespace snug {

enum class Language : std::uint8_t { Cpp, Python, Tool };
/// Of this process: C++, unless a binding or the command line tool says otherwise.
void set_language(Language language);
Language language();

/// An option that is set: ".micro_batches = 4", "micro_batches=4", "--micro-batches 4".
std::string option(std::string_view name, std::int64_t value);
/// ".memory = \"4GiB\"", "memory=\"4GiB\"", "--memory 4GiB"
std::string option(std::string_view name, std::string_view text);
/// ".activations = DType::BF16", "activations=\"bfloat16\"", "--activations bfloat16"
std::string option(std::string_view name, DType dtype);
/// ".resume = true", "resume=True", "--resume" (false: "--no-resume")
std::string switched(std::string_view name, bool on);
/// One of an enum: ".on_unused_input = OnUnusedInput::Ignore", "on_unused_input='ignore'".
std::string choice(std::string_view name, std::string_view type, std::string_view value);
/// An option by its name alone: ".memory", "memory=", "--memory".
std::string option(std::string_view name);

/// The budget of the process: "set_memory_budget(...)", "config.memory".
std::string_view process_budget_name();

/// Where the rest does not do.
std::string spelled(std::string_view cpp, std::string_view python);

std::string enumerator_of(DType dtype);  // "DType::F32"
/// "cast(x, DType::F32)", "x.astype('float32')"
std::string cast_of(std::string_view x, DType dtype);

}  // namespace snug
