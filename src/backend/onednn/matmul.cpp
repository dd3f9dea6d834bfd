#include <algorithm>

#include "backend/native/call.h"
#include "backend/native/gemm.h"
#include "backend/native/narrow.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "backend/onednn/chain.h"
#include "backend/onednn/routines.h"
#include "base/elements.h"

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

/// The second operand has rows of a multiple of a page, which displace each other from the cache.
/// oneDNN packs it for kPackedRows rows of the first and more, else reads it as it is.
constexpr std::int64_t kPackedRows = 512;
bool displaces_itself(const Gemm& g) {
  constexpr std::int64_t kPageFloats = 1024, kFewRows = 32;
  return g.b_col == 1 && g.n > 1 && g.k > kFewRows && g.b_row % kPageFloats == 0;
}

/// Where OpenBLAS is measured to be faster: small products, vectors, narrow ones whose operand
/// oneDNN would turn first, and those whose second operand it would not pack and should.
bool better_by_blas(const Product& p) {
  const Gemm& g = p.gemm;
  if (g.dtype != DType::F32 || !blas_takes(g)) return false;
  const bool a_turned = g.a_col != 1 && g.k > 1, b_turned = g.b_col != 1 && g.n > 1;
  return g.m * g.n * g.k < (1 << 16) || g.n == 1 || (g.n < 16 && a_turned) ||
         (g.m == 1 && b_turned) || (g.m < 2 * kPackedRows && displaces_itself(g));
}

/// The parts that a product is done in, each by one thread. They follow from its sizes alone, so
/// its bits do, whatever the number of threads.
struct Cut {
  std::int64_t batches, rows, columns;  // of a part; the last ones have what is left
};

std::int64_t pieces(std::int64_t size, std::int64_t step) { return (size + step - 1) / step; }

Cut cut(const Product& p) {
  const Gemm& g = p.gemm;
  // Parts take some 25 us. Each packs the operand that it shares with others again, so more than a
  // few have many rows or columns.
  constexpr std::int64_t kPart = 1 << 20;  // multiply-adds
  constexpr std::int64_t kFew = 8, kMany = 256, kColumns = 64;
  const bool by_rows = 4 * g.m >= g.n;
  const std::int64_t rows = displaces_itself(g) ? kPackedRows : 16;
  const std::int64_t parts = std::clamp<std::int64_t>(
      p.work() / kPart, 1, std::max(kFew, p.batches * (by_rows ? g.m : g.n) / kMany));
  Cut c{pieces(p.batches, std::min(parts, p.batches)), g.m, g.n};
  const std::int64_t each = pieces(parts, p.batches);  // parts of a matrix
  const auto step = [&](std::int64_t size, std::int64_t unit) {
    return std::max(unit, pieces(pieces(size, each), unit) * unit);
  };
  if (each > 1) (by_rows ? c.rows = step(g.m, rows) : c.columns = step(g.n, kColumns));
  return c;
}

template <class T>
void finish_rows(const ArgDesc& out, std::byte* data, const std::byte* bias, bool relu,
                 int threads) {
  using E = Element<T>;
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
    finish_rows<BFloat>(out, args.out[0], args.in[2], e.relu, threads);
}

/// A part of a product: where its operands begin, in bytes.
struct Part {
  std::shared_ptr<const Chain> chain;
  std::int64_t a = 0, b = 0, c = 0, bias = 0;
};

class MatmulCall : public native::Call {
 public:
  MatmulCall(const CallSite& site, Epilogue epilogue, std::vector<Part> parts)
      : Call(site), epilogue_(epilogue), parts_(std::move(parts)) {
    for (const Part& part : parts_) slot_ = std::max(slot_, part.chain->workspace());
    workspace = slot_ * runs();
  }
  void make_ready() const override {
    const native::OmpThreads scope(1);
    for (const Part& part : parts_) part.chain->make_ready(runs());
  }
  void count_code(CodeCount& count) const override {
    for (const Part& part : parts_) count.add(part.chain.get(), part.chain->code_bytes());
  }
  void run(const RunArgs& args) const override {
    const Product product(in(args, 0), in(args, 1), out(args, 0));
    if (!same_layout(in(args, 0), in_[0]) || !same_layout(in(args, 1), in_[1]) ||
        !same_layout(out(args, 0), out_[0])) {
      run_product(product, args, workspace, threads_);
      finish(out(args, 0), args, epilogue_, threads_);
      return;
    }
    parallel_slots(static_cast<std::int64_t>(parts_.size()), product.work() / kPerElement, threads_,
                   [&](int slot, std::int64_t first, std::int64_t last) {
                     for (; first < last; ++first) run_part(args, slot, parts_[first]);
                   });
  }

 private:
  static constexpr std::int64_t kPerElement = 16;  // multiply-adds in the time of an element

  /// At the same time.
  std::size_t runs() const { return std::min(parts_.size(), static_cast<std::size_t>(threads_)); }

  void run_part(const RunArgs& args, int slot, const Part& part) const {
    std::byte* const in[] = {args.in[0] + part.a, args.in[1] + part.b,
                             epilogue_.bias ? args.in[2] + part.bias : nullptr};
    std::byte* const out[] = {args.out[0] + part.c};
    part.chain->run(in, out, args.workspace + static_cast<std::uint64_t>(slot) * slot_);
  }

  Epilogue epilogue_;
  std::vector<Part> parts_;
  std::uint64_t slot_ = 0;  // bytes of workspace of a thread
};

/// The chain of one part; null if oneDNN does not do it well.
std::shared_ptr<const Chain> chain_of(const Product& p, Epilogue e) {
  const Gemm& g = p.gemm;
  const std::string key =
      fmt::format("matmul {} {} {} {}x{}x{}x{} {} {} {} {} {} {} {} {} {}", name_of(g.dtype),
                  e.bias, e.relu, p.batches, g.m, g.n, g.k, p.a_batch, g.a_row, g.a_col, p.b_batch,
                  g.b_row, g.b_col, p.c_batch, g.c_row, g.c_col);
  return cached_chain(key, [&] { return build(p, e); });
}

/// Empty if oneDNN does not do them well.
std::vector<Part> parts_of(const Product& p, Epilogue e) {
  const Gemm& g = p.gemm;
  const Cut c = cut(p);
  const std::int64_t size = size_of(g.dtype);
  std::vector<Part> parts;
  for (std::int64_t batch = 0; batch < p.batches; batch += c.batches)
    for (std::int64_t row = 0; row < g.m; row += c.rows)
      for (std::int64_t column = 0; column < g.n; column += c.columns) {
        Product part = p;
        part.batches = std::min(c.batches, p.batches - batch);
        part.gemm.m = std::min(c.rows, g.m - row);
        part.gemm.n = std::min(c.columns, g.n - column);
        auto chain = chain_of(part, e);
        if (!chain) return {};
        parts.push_back({std::move(chain), size * (batch * p.a_batch + row * g.a_row),
                         size * (batch * p.b_batch + column * g.b_col),
                         size * (batch * p.c_batch + row * g.c_row + column * g.c_col),
                         size * column});
      }
  return parts;
}

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
  if (!known || large || native::narrow_takes(g) || better_by_blas(p) || site.runtime_sizes ||
      p.work() == 0 || g.m * g.n * g.k < native::kTinyGemm || p.a_batch < 0 || p.b_batch < 0 ||
      !plain_matrix(g.m, g.k, g.a_row, g.a_col) || !plain_matrix(g.k, g.n, g.b_row, g.b_col))
    return prepare_native(site, e);
  const native::OmpThreads scope(1);
  std::vector<Part> parts = parts_of(p, e);
  if (parts.empty()) return prepare_native(site, e);
  return std::make_unique<MatmulCall>(site, e, std::move(parts));
}

}  // namespace

std::unique_ptr<PreparedCall> prepare_dot(const CallSite& site) { return prepare(site, {}); }

std::unique_ptr<PreparedCall> prepare_affine(const CallSite& site) {
  return prepare(site, {true, site.node->attrs.flag("relu")});
}

}  // namespace snug::onednn
