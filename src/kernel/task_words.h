#pragma once
#include "kernel/program.h"

namespace snug {

/// What a task does in the words of users: "add, relu", "conv2d backward by images". A kernel of
/// many ops names the first ones.
std::string words_for(const Program& program, const Task& task);

}  // namespace snug
