#include "backend/native/gemm.h"
#include "backend/opencl/routine_call.h"
#include "backend/opencl/routines.h"
#include "backend/opencl/tiled_call.h"

namespace snug::opencl_routines {
namespace {

/// What follows the product while it is in registers.
struct Epilogue {
  bool bias = false, relu = false;
};

class ProductCall : public TiledCall {
 public:
  ProductCall(const CallSite& site, Epilogue epilogue)
      : TiledCall(site), epilogue_(epilogue), trial_{site.in, site.out} {
    const native::Product p(site.in[0], site.in[1], site.out[0]);
    const TiledProduct t = text(p, site.out[0].dtype);
    set_up(t, sizes(site.in.data(), site.out.data()),
           fmt::format("{}{}", t.a_along_k, t.b_along_k));
  }

 protected:
  ProductSizes sizes(const ArgDesc* in, const ArgDesc* out) const override {
    const native::Product p(in[0], in[1], out[0]);
    return {p.gemm.m, p.gemm.n, p.gemm.k, p.batches};
  }

  std::vector<OpenClArg> arguments(const RunArgs& args) const override {
    const native::Product p(args.in_desc[0], args.in_desc[1], args.out_desc[0]);
    const native::Gemm& g = p.gemm;
    std::vector<OpenClArg> all{in(args, 0), in(args, 1), out(args, 0)};
    if (epilogue_.bias) all.push_back(in(args, 2));
    for (const std::int64_t n : {g.m, g.n, g.k, p.a_batch, g.a_row, g.a_col, p.b_batch, g.b_row,
                                 g.b_col, p.c_batch, g.c_row, g.c_col})
      all.push_back(OpenClArg::int64(n));
    return all;
  }

  /// At most 1024 along each axis, and dense.
  Trial trial() const override {
    constexpr std::int64_t kMost = 1024;
    Trial t = trial_;
    const auto shorten = [&](ArgDesc& d) {
      const std::size_t row = d.shape.size() - 2, column = row + 1;
      const bool by_columns = d.strides[row] == 1 && d.strides[column] != 1;
      for (std::int64_t& n : d.shape) n = std::min(n, kMost);
      for (std::size_t k = 0; k < row; ++k) d.shape[k] = std::min<std::int64_t>(d.shape[k], 8);
      d.strides[by_columns ? row : column] = 1;
      d.strides[by_columns ? column : row] = d.shape[by_columns ? row : column];
      std::int64_t stride = d.shape[row] * d.shape[column];
      for (std::size_t k = row; k-- > 0; stride *= d.shape[k]) d.strides[k] = stride;
    };
    shorten(t.in[0]);
    shorten(t.in[1]);
    shorten(t.out[0]);
    if (epilogue_.bias) t.in[2].shape.back() = std::min(t.in[2].shape.back(), kMost);
    return t;
  }

 private:
  TiledProduct text(const native::Product& p, DType dtype) const {
    TiledProduct t;
    t.name = epilogue_.bias ? (epilogue_.relu ? "affine_relu" : "affine") : "dot";
    t.dtype = dtype;
    const std::string type = opencl_memory_type(dtype);
    for (const char* name : {"const $a", "const $b", "$c", "const $bias"}) {
      if (std::string_view(name).ends_with("bias") && !epilogue_.bias) continue;
      const std::string word = name;
      const std::size_t at = word.find('$');
      t.parameters += fmt::format("__global {0}{1}* {2}, const long {2}0, ", word.substr(0, at),
                                  type, word.substr(at + 1));
      t.args.push_back(OpenClKind::Memory);
      t.begin += fmt::format("  {0} += {0}0;\n", word.substr(at + 1));
    }
    for (const char* name : {"M", "N", "K", "a_batch", "a_row", "a_col", "b_batch", "b_row",
                             "b_col", "c_batch", "c_row", "c_col"}) {
      t.parameters += fmt::format("const long {}, ", name);
      t.args.push_back(OpenClKind::Long);
    }
    t.begin += "  a += z * a_batch;\n  b += z * b_batch;\n  c += z * c_batch;";
    t.load_a = opencl_load(dtype, "a", "m * a_row + k * a_col");
    t.load_b = opencl_load(dtype, "b", "k * b_row + n * b_col");
    t.a_along_k = p.gemm.a_col == 1 || p.gemm.a_row != 1;
    t.b_along_k = p.gemm.b_row == 1 && p.gemm.b_col != 1;
    if (epilogue_.bias) t.store += fmt::format("sum += {}; ", opencl_load(dtype, "bias", "n"));
    if (epilogue_.relu) t.store += "sum = sum > 0 ? sum : 0; ";
    t.store += opencl_store(dtype, "c", "m * c_row + n * c_col", "sum", t.helpers);
    return t;
  }

  Epilogue epilogue_;
  Trial trial_;  // with the sizes that it is prepared for
};

}  // namespace

Prepared prepare_dot(const CallSite& site) {
  return std::make_unique<ProductCall>(site, Epilogue{});
}
Prepared prepare_affine(const CallSite& site) {
  return std::make_unique<ProductCall>(site, Epilogue{true, site.node->attrs.flag("relu")});
}

}  // namespace snug::opencl_routines
