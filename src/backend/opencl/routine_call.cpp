#include "backend/opencl/routine_call.h"

#include "backend/opencl/opencl_expr.h"
#include "backend/opencl/opencl_helpers.h"

namespace snug {

std::string opencl_memory_type(DType t) {
  if (t == DType::F16) return "half";
  return t == DType::BF16 ? "ushort" : opencl_type(t);
}

std::string opencl_sum_type(DType t) { return opencl_type(t); }

std::string opencl_load(DType t, const std::string& pointer, const std::string& at) {
  switch (t) {
    case DType::F16: return fmt::format("vload_half({}, {})", at, pointer);
    case DType::BF16: return fmt::format("as_float((uint){}[{}] << 16)", pointer, at);
    default: return fmt::format("{}[{}]", pointer, at);
  }
}

std::string opencl_store(DType t, const std::string& pointer, const std::string& at,
                         const std::string& value, OpenClHelpers& helpers) {
  switch (t) {
    case DType::F16: return fmt::format("vstore_half_rte({}, {}, {});", value, at, pointer);
    case DType::BF16:
      return fmt::format("{}[{}] = {}({});", pointer, at, add_helper(helpers, "bfloat"), value);
    default: return fmt::format("{}[{}] = {};", pointer, at, value);
  }
}

}  // namespace snug
