#pragma once
#include "graph/graph.h"

/// Nodes and values in the words of users, for reports and messages.
namespace snug {

/// "relu", "conv2d backward by images": the function that the user has called, or the name of the
/// op.
std::string word_for(const Node& node);

/// "float32 (64, 3, 8, 8)", with the axes as the user has them: images that lie with their channels
/// last are "float32 (64, 3, 8, 8) channels last".
std::string describe_value(DType dtype, const Dims& shape, OriginId origin);

}  // namespace snug
