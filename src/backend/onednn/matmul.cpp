#include <algorithm>

#include "backend/native/call.h"
#include "backend/native/elements.h"
#include "backend/native/gemm.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "backend/onednn/chain.h"
#include "backend/onednn/routines.h"

namespace snug::onednn {
namespace {

using native::Gemm;
using native::Product;

bool same_layout(const ArgDesc& a, const ArgDesc& b) {
  return a.shape == b.shape && a.strides == b.strides;
}

/// The strides of a (batches, rows, cols) operand; those of axes of size 1 do not matter, and
/// oneDNN wants them plausible.
dnnl::memory::desc operand(DType dtype, std::int64_t batches, std::int64_t rows, std::int64_t cols,
                           std::int64_t batch, std::int64_t row, std::int64_t col) {
  if (cols == 1) col = 1;
  if (rows == 1) row = std::max<std::int64_t>(cols * col, 1);
  if (batch == 0) batches = 1;  // one matrix for the whole batch
  if (batches == 1) batch = std::max(rows * row, cols * col);
  return {{batches, rows, cols}, data_type(dtype), {batch, row, col}};
}

/// What follows the product while it is in registers.
struct Epilogue {
  bool bias = false, relu = false;
};

std::shared_ptr<Chain> build(const Product& p, Epilogue e) {
  const Gemm& g = p.gemm;
  const auto a = operand(g.dtype, p.batches, g.m, g.k, p.a_batch, g.a_row, g.a_col);
  const auto b = operand(g.dtype, p.batches, g.k, g.n, p.b_batch, g.b_row, g.b_col);
  const auto c = operand(g.dtype, p.batches, g.m, g.n, p.c_batch, g.c_row, g.c_col);
  const dnnl::memory::desc row({1, 1, g.n}, data_type(g.dtype), dnnl::memory::format_tag::abc);
  dnnl::primitive_attr attr = user_scratchpad();
  if (e.relu) {
    dnnl::post_ops ops;
    ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    attr.set_post_ops(ops);
  }
  const dnnl::matmul::primitive_desc pd(
      e.bias ? dnnl::matmul::desc(a, b, row, c) : dnnl::matmul::desc(a, b, c), attr, engine());
  if (is_reference(pd)) return nullptr;
  auto chain = std::make_shared<Chain>();
  const auto x = chain->memory(a, Chain::Place::In, 0);
  const auto y = chain->memory(b, Chain::Place::In, 1);
  const auto z = chain->memory(c, Chain::Place::Out, 0);
  std::vector<Chain::Argument> arguments{
      {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, y}, {DNNL_ARG_DST, z}};
  if (e.bias) arguments.push_back({DNNL_ARG_BIAS, chain->memory(row, Chain::Place::In, 2)});
  chain->step<dnnl::matmul>(pd, std::move(arguments));
  return chain;
}

/// True if one operand of every pair of axes has unit stride and nothing overlaps or runs
/// backwards.
bool plain_matrix(std::int64_t rows, std::int64_t cols, std::int64_t row, std::int64_t col) {
  const bool by_rows = (cols == 1 || col == 1) && (rows == 1 || row >= cols);
  const bool by_cols = (rows == 1 || row == 1) && (cols == 1 || col >= rows);
  return by_rows || by_cols;
}

/// Where OpenBLAS is measured to be faster: small products, vectors, and narrow ones whose operand
/// oneDNN would turn first.
bool better_by_blas(const Product& p) {
  const Gemm& g = p.gemm;
  if (g.dtype != DType::F32 || !blas_takes(g)) return false;
  const bool a_turned = g.a_col != 1 && g.k > 1, b_turned = g.b_col != 1 && g.n > 1;
  return g.m * g.n * g.k < (1 << 16) || g.n == 1 || (g.n < 16 && a_turned) ||
         (g.m == 1 && b_turned);
}

template <class T>
void finish_rows(const ArgDesc& out, std::byte* data, const std::byte* bias, bool relu,
                 int threads) {
  using E = native::Element<T>;
  const std::int64_t n = out.shape[1];
  T* to = reinterpret_cast<T*>(data);
  const T* row = reinterpret_cast<const T*>(bias);
  parallel_ranges(out.shape[0], out.shape[0] * n, threads, [&](auto begin, auto end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        auto sum = E::load(to[i * n + j]) + E::load(row[j]);
        to[i * n + j] = E::store(relu && !(sum > 0) ? 0 : sum);
      }
  });
}

/// The epilogue by itself, where oneDNN does not do the product.
void finish(const ArgDesc& out, const RunArgs& args, Epilogue e, int threads) {
  if (!e.bias) return;
  if (out.dtype == DType::F32)
    finish_rows<float>(out, args.out[0], args.in[2], e.relu, threads);
  else
    finish_rows<native::BFloat>(out, args.out[0], args.in[2], e.relu, threads);
}

class MatmulCall : public native::Call {
 public:
  MatmulCall(const CallSite& site, Epilogue epilogue, std::shared_ptr<const Chain> chain)
      : Call(site), epilogue_(epilogue), chain_(std::move(chain)) {
    workspace = chain_->workspace();
  }
  void make_ready() const override {
    const native::OmpThreads scope(threads_);
    chain_->make_ready();
  }
  void count_code(CodeCount& count) const override {
    count.add(chain_.get(), chain_->code_bytes());
  }
  void run(const RunArgs& args) const override {
    if (same_layout(in(args, 0), in_[0]) && same_layout(in(args, 1), in_[1]) &&
        same_layout(out(args, 0), out_[0])) {
      const native::OmpThreads scope(threads_);
      chain_->run(args.in, args.out, args.workspace);
      return;
    }
    run_product(Product(in(args, 0), in(args, 1), out(args, 0)), args, workspace, threads_);
    finish(out(args, 0), args, epilogue_, threads_);
  }

 private:
  Epilogue epilogue_;
  std::shared_ptr<const Chain> chain_;
};

/// The native product, then the epilogue.
class NativeAffineCall : public native::Call {
 public:
  NativeAffineCall(const CallSite& site, Epilogue epilogue)
      : Call(site), epilogue_(epilogue), product_(native::prepare_dot(site)) {
    workspace = product_->workspace;
    blas_buffers = product_->blas_buffers;
  }
  void run(const RunArgs& args) const override {
    product_->run(args);
    finish(out(args, 0), args, epilogue_, threads_);
  }

 private:
  Epilogue epilogue_;
  std::unique_ptr<PreparedCall> product_;
};

std::unique_ptr<PreparedCall> prepare_native(const CallSite& site, Epilogue e) {
  if (!e.bias) return native::prepare_dot(site);
  return std::make_unique<NativeAffineCall>(site, e);
}

std::unique_ptr<PreparedCall> prepare(const CallSite& site, Epilogue e) {
  const Product p(site.in[0], site.in[1], site.out[0]);
  const Gemm& g = p.gemm;
  const bool known = g.dtype == DType::F32 || (g.dtype == DType::BF16 && has_bfloat16());
  // oneDNN counts rows and columns in 32 bits and divides by what is left of a larger number.
  const bool large = std::max({p.batches, g.m, g.n, g.k}) > INT32_MAX;
  if (!known || large || better_by_blas(p) || site.runtime_sizes || p.work() == 0 ||
      g.m * g.n * g.k < native::kTinyGemm || p.a_batch < 0 || p.b_batch < 0 ||
      !plain_matrix(g.m, g.k, g.a_row, g.a_col) || !plain_matrix(g.k, g.n, g.b_row, g.b_col))
    return prepare_native(site, e);
  const native::OmpThreads scope(site.threads);
  const std::string key =
      fmt::format("matmul {} {} {} {} {}x{}x{}x{} {} {} {} {} {} {} {} {} {}", name_of(g.dtype),
                  e.bias, e.relu, site.threads, p.batches, g.m, g.n, g.k, p.a_batch, g.a_row,
                  g.a_col, p.b_batch, g.b_row, g.b_col, p.c_batch, g.c_row, g.c_col);
  auto chain = cached_chain(key, [&] { return build(p, e); });
  if (!chain) return prepare_native(site, e);
  return std::make_unique<MatmulCall>(site, e, std::move(chain));
}

}  // namespace

std::unique_ptr<PreparedCall> prepare_dot(const CallSite& site) { return prepare(site, {}); }

std::unique_ptr<PreparedCall> prepare_affine(const CallSite& site) {
  return prepare(site, {true, site.node->attrs.flag("relu")});
}

}  // namespace snug::onednn
