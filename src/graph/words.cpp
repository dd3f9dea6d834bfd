#include "graph/words.h"

#include <fmt/format.h>

#include "base/origin_marks.h"
#include "expr/loop_shape.h"

namespace snug {

std::string word_for(const Node& node) {
  if (node.inner && LoopShape::of(node.attrs).blocks) return "slices of the batch";
  if (const std::string_view word = word_of(node.origin); !word.empty()) return std::string(word);
  return node.inner ? "scan" : std::string(node.op->name);
}

std::string describe_value(DType dtype, const Dims& shape, OriginId origin) {
  const bool turned = is_channels_last(origin) && shape.size() == 4;
  const Dims given = turned ? Dims{shape[0], shape[3], shape[1], shape[2]} : shape;
  return fmt::format("{} {}{}", name_of(dtype), describe_shape(given),
                     turned ? " channels last" : "");
}

}  // namespace snug
