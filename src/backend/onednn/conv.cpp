#include "backend/native/conv.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "backend/native/call.h"
#include "backend/native/conv_last.h"
#include "backend/native/convert.h"
#include "backend/native/parallel.h"
#include "backend/onednn/chain.h"
#include "backend/onednn/routines.h"

namespace snug::onednn {
namespace {

using native::ConvKind;
using native::ConvShape;
using Tag = dnnl::memory::format_tag;

struct Descs {
  dnnl::memory::desc x, w, y;
};

/// `any`: oneDNN chooses the layout of the weights.
Descs descs(const ConvShape& s, DType dtype, bool any, Tag image) {
  const auto type = data_type(dtype);
  const bool three = s.axes == 3;
  const Tag one = three ? Tag::oidhw : Tag::oihw, grouped = three ? Tag::goidhw : Tag::goihw;
  // The sizes in front, and those of all axes.
  const auto sizes = [&](dnnl::memory::dims first, const dnnl::memory::dims& all) {
    first.insert(first.end(), all.end() - s.axes, all.end());
    return first;
  };
  const dnnl::memory::dims taps{s.kd, s.kh, s.kw};
  const dnnl::memory::desc w =
      s.groups == 1 ? dnnl::memory::desc(sizes({s.o, s.c}, taps), type, any ? Tag::any : one)
                    : dnnl::memory::desc(sizes({s.groups, s.group_out(), s.group_in()}, taps), type,
                                         any ? Tag::any : grouped);
  return {{sizes({s.n, s.c}, {s.d, s.h, s.w}), type, image},
          w,
          {sizes({s.n, s.o}, {s.od, s.oh, s.ow}), type, image}};
}

/// The gradient by images of a convolution with stride 1 is a convolution of dy with turned
/// filters, from o channels to c. oneDNN 2.6 does it so a third faster than as a gradient.
bool is_forward(ConvKind kind, const ConvShape& s) {
  const std::int64_t rows = (s.kh - 1) * s.dh, columns = (s.kw - 1) * s.dw;
  return kind == ConvKind::GradInput && s.axes == 2 && s.sh == 1 && s.sw == 1 &&
         std::max(s.top, s.bottom) <= rows && std::max(s.left, s.right) <= columns;
}
ConvShape forward_shape(const ConvShape& s) {
  const std::int64_t rows = (s.kh - 1) * s.dh, columns = (s.kw - 1) * s.dw;
  ConvShape t = s;
  t.c = s.o, t.h = s.oh, t.w = s.ow;
  t.o = s.c, t.oh = s.h, t.ow = s.w;
  t.top = rows - s.top, t.bottom = rows - s.bottom;
  t.left = columns - s.left, t.right = columns - s.right;
  return t;
}
/// The plain filters of `s` as those of forward_shape(s).
dnnl::memory::desc swapped_filters(const ConvShape& s, DType dtype) {
  const std::int64_t taps = s.taps(), in = s.group_in(), out = s.group_out();
  if (s.groups == 1) return {{s.c, s.o, s.kh, s.kw}, data_type(dtype), {taps, s.c * taps, s.kw, 1}};
  return {{s.groups, in, out, s.kh, s.kw},
          data_type(dtype),
          {out * in * taps, taps, in * taps, s.kw, 1}};
}

/// oneDNN 2.6 does the gradient by 1 x 1 filters with strides on a copy, in its scratchpad, of the
/// pixels they meet. With channels last it books `c` elements per pixel but starts a pixel's copy
/// after as many blocks of channels (8 or 16) as there are pixels before it: with fewer channels
/// than a block, threads write into each other's copies and past the scratchpad. There the pixels
/// are gathered by a reorder of ours instead, and the filters move over every one of them. (Its
/// forward convolution and its gradient by images start their copies where they should.)
bool gathers(ConvKind kind, const ConvShape& s) {
  constexpr std::int64_t kBlock = 16;
  return kind == ConvKind::GradWeight && s.axes == 2 && s.groups == 1 && s.taps() == 1 &&
         s.sh * s.sw > 1 && s.top == 0 && s.left == 0 && s.oh * s.sh == s.h && s.ow * s.sw == s.w &&
         s.c < kBlock;
}
ConvShape gathered_shape(const ConvShape& s) {
  ConvShape t = s;
  t.h = s.oh, t.w = s.ow;
  t.sh = t.sw = 1;
  return t;
}
/// The images of gathered_shape(s) in those of `s`.
dnnl::memory::desc met_pixels(const ConvShape& s, DType dtype) {
  return {
      {s.n, s.c, s.oh, s.ow}, data_type(dtype), {s.h * s.w * s.c, 1, s.sh * s.w * s.c, s.sw * s.c}};
}

/// Of a convolution of floats with channels last: whether oneDNN does it by `pd` better than
/// columns and products do. Its own columns (`gemm`) are not; its direct code works on filters
/// padded to whole blocks of channels, which it reorders before (or after) the work, and as a
/// forward convolution a gradient by images has a window for each pixel of x.
bool beats_columns(const dnnl::primitive_desc_base& pd, const dnnl::memory::desc& filters,
                   ConvKind kind, const ConvShape& given, bool as_forward) {
  if (std::string_view(pd.impl_info_str()).find("gemm") != std::string_view::npos) return false;
  double padded = 1;
  for (int k = 0; k < filters.data.ndims; ++k)
    padded *= static_cast<double>(filters.data.padded_dims[k]) / filters.data.dims[k];
  const double windows = as_forward ? static_cast<double>(given.image()) / given.plane() : 1;
  const double weights = static_cast<double>(given.o) * given.group_in() * given.taps();
  // By the times of random shapes (benchmarks/convolution_sweep.cpp): reordering an element takes
  // as long as so many multiply-adds; and as products of few rows or columns are slow, columns
  // have to be so much less work.
  constexpr double kReorder = 32, kNarrow = 2.5;
  const double cost =
      static_cast<double>(given.work()) * padded * windows + weights * padded * kReorder;
  return cost < kNarrow * native::ColumnConv(kind, given).cost();
}

/// Where the plain operands are: in the call's arguments, or converted or turned in the workspace.
struct Operand {
  bool staged = false;
  std::uint64_t offset = 0;
};
using Operands = std::array<Operand, 3>;  // input 0, input 1, output

/// `outside`: how images lie in memory. `inside`: the layout that oneDNN works in; if it is another
/// they are reordered on the way. `as_forward`: a gradient by images by a forward convolution.
std::shared_ptr<Chain> build(ConvKind kind, const ConvShape& given, bool as_forward, DType dtype,
                             Tag outside, Tag inside, const Operands& operands,
                             std::uint64_t workspace_begin) {
  const auto accepts = [&, kind](const dnnl::primitive_desc_base& pd,
                                 const dnnl::memory::desc& filters) {
    return dtype != DType::F32 || given.axes != 2 || !native::ColumnConv::takes(given) ||
           beats_columns(pd, filters, kind, given, as_forward);
  };
  const bool gather = gathers(kind, given);
  const ConvShape s = as_forward ? forward_shape(given) : gather ? gathered_shape(given) : given;
  if (as_forward) kind = ConvKind::Forward;
  Descs plain = descs(s, dtype, false, outside);
  if (as_forward) plain.w = swapped_filters(given, dtype);
  if (gather) plain.x = met_pixels(given, dtype);
  const Descs any = descs(s, dtype, true, inside);
  dnnl::memory::dims strides{s.sh, s.sw}, dilation{s.dh - 1, s.dw - 1}, low{s.top, s.left},
      high{s.bottom, s.right};
  if (s.axes == 3) {
    strides.insert(strides.begin(), s.sd);
    dilation.insert(dilation.begin(), s.dd - 1);
    low.insert(low.begin(), s.front);
    high.insert(high.begin(), s.back);
  }
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, direct, any.x, any.w, any.y, strides, dilation, low,
       high},
      user_scratchpad(), engine());
  auto chain = std::make_shared<Chain>(workspace_begin);
  const auto place = [&](int i, const dnnl::memory::desc& desc) {
    if (operands[i].staged) return chain->memory(desc, Chain::Place::Workspace, operands[i].offset);
    return i < 2 ? chain->memory(desc, Chain::Place::In, i)
                 : chain->memory(desc, Chain::Place::Out, 0);
  };
  switch (kind) {
    case ConvKind::Forward: {
      if (is_reference(forward) || !accepts(forward, forward.weights_desc())) return nullptr;
      const auto x = chain->in_layout(place(as_forward, plain.x), forward.src_desc());
      const auto w = chain->in_layout(place(!as_forward, plain.w), forward.weights_desc());
      const auto out = place(2, plain.y);
      const auto y = chain->out_layout(out, forward.dst_desc());
      chain->step<dnnl::convolution_forward>(
          forward, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
      chain->flush(y, out);
      return chain;
    }
    case ConvKind::GradInput: {
      const dnnl::convolution_backward_data::primitive_desc pd(
          {direct, any.x, any.w, any.y, strides, dilation, low, high}, user_scratchpad(), engine(),
          forward);
      if (is_reference(pd) || !accepts(pd, pd.weights_desc())) return nullptr;
      const auto w = chain->in_layout(place(0, plain.w), pd.weights_desc());
      const auto dy = chain->in_layout(place(1, plain.y), pd.diff_dst_desc());
      const auto out = place(2, plain.x);
      const auto dx = chain->out_layout(out, pd.diff_src_desc());
      chain->step<dnnl::convolution_backward_data>(
          pd, {{DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}});
      chain->flush(dx, out);
      return chain;
    }
    case ConvKind::GradWeight: {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          {direct, any.x, any.w, any.y, strides, dilation, low, high}, user_scratchpad(), engine(),
          forward);
      if (is_reference(pd) || !accepts(pd, pd.diff_weights_desc())) return nullptr;
      const auto x = chain->in_layout(place(0, plain.x), pd.src_desc());
      const auto dy = chain->in_layout(place(1, plain.y), pd.diff_dst_desc());
      const auto out = place(2, plain.w);
      const auto dw = chain->out_layout(out, pd.diff_weights_desc());
      chain->step<dnnl::convolution_backward_weights>(
          pd, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dw}});
      chain->flush(dw, out);
      return chain;
    }
  }
  return nullptr;
}

/// Turns every kernel by 180 degrees: the order of its taps is reversed. `to` may be `from`.
template <class T>
void turn_kernels(const T* from, T* to, std::int64_t kernels, std::int64_t taps, int threads) {
  parallel_ranges(kernels, kernels * taps, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * taps; first < end * taps; first += taps)
      for (std::int64_t low = first, high = first + taps - 1; low <= high; ++low, --high) {
        const T a = from[low], b = from[high];
        to[low] = b;
        to[high] = a;
      }
  });
}
void turn(std::int64_t element_bytes, const std::byte* from, std::byte* to, std::int64_t kernels,
          std::int64_t taps, int threads) {
  if (element_bytes == 4)
    turn_kernels(reinterpret_cast<const std::uint32_t*>(from), reinterpret_cast<std::uint32_t*>(to),
                 kernels, taps, threads);
  else
    turn_kernels(reinterpret_cast<const std::uint16_t*>(from), reinterpret_cast<std::uint16_t*>(to),
                 kernels, taps, threads);
}

/// Which of (input 0, input 1, output) is the weight.
int weight_operand(ConvKind kind) {
  return kind == ConvKind::Forward ? 1 : kind == ConvKind::GradInput ? 0 : 2;
}

class ConvCall : public native::Call {
 public:
  /// Null if oneDNN does not do it well in `compute`.
  static std::unique_ptr<ConvCall> make(const CallSite& site, ConvKind kind, const ConvShape& s,
                                        DType compute) {
    if (is_forward(kind, s))
      if (auto call = make(site, kind, s, compute, true)) return call;
    return make(site, kind, s, compute, false);
  }

  void make_ready() const override {
    const native::OmpThreads scope(threads_);
    chain_->make_ready();
  }
  void count_code(CodeCount& count) const override {
    count.add(chain_.get(), chain_->code_bytes());
  }
  void run(const RunArgs& args) const override {
    const native::OmpThreads scope(threads_);
    for (int i = 0; i < 2; ++i)
      if (operands_[i].staged) stage(i, args.in[i], args.workspace + operands_[i].offset);
    chain_->run(args.in, args.out, args.workspace);
    if (operands_[2].staged) unstage(args.workspace + operands_[2].offset, args.out[0]);
  }

 private:
  ConvCall(const CallSite& site, ConvKind kind, const ConvShape& s, bool turns)
      : Call(site), kind_(kind), shape_(s), turns_(turns) {}

  static std::unique_ptr<ConvCall> make(const CallSite& site, ConvKind kind, const ConvShape& s,
                                        DType compute, bool as_forward) {
    const bool turns = s.flip != as_forward && s.taps() > 1;
    Operands operands;
    std::uint64_t bytes = 0;
    const bool convert = site.out[0].dtype != compute;
    for (int i = 0; i < 3; ++i) {
      operands[i].staged = convert || (turns && i == weight_operand(kind));
      if (!operands[i].staged) continue;
      operands[i].offset = bytes;
      const Dims& shape = (i < 2 ? site.in[i] : site.out[0]).shape;
      bytes += native::align64(product(shape) * size_of(compute));
    }
    const native::OmpThreads scope(site.threads);
    const std::string key = fmt::format(
        "conv {} {} {} {} {} {},{},{},{} {},{},{} {},{} {},{},{},{} {},{} {},{} {} {} "
        "{} {},{},{} {},{} {},{}",
        static_cast<int>(kind), as_forward, name_of(site.out[0].dtype), name_of(compute),
        site.threads, s.n, s.c, s.h, s.w, s.o, s.kh, s.kw, s.oh, s.ow, s.top, s.bottom, s.left,
        s.right, s.sh, s.sw, s.dh, s.dw, s.groups, s.flip, s.axes, s.d, s.kd, s.od, s.front, s.back,
        s.sd, s.dd);
    auto chain = cached_chain(key, [&] {
      const Tag outside = s.axes == 3 ? Tag::ncdhw : Tag::nhwc;
      std::shared_ptr<Chain> made;
      if (s.axes == 2)
        made = build(kind, s, as_forward, compute, outside, outside, operands, bytes);
      if (made || as_forward) return made;
      return build(kind, s, false, compute, outside, Tag::any, operands, bytes);
    });
    if (!chain) return nullptr;
    auto call = std::unique_ptr<ConvCall>(new ConvCall(site, kind, s, turns));
    call->operands_ = operands;
    call->compute_ = compute;
    call->workspace = chain->workspace();
    call->chain_ = std::move(chain);
    return call;
  }

  bool turned(int i) const { return turns_ && i == weight_operand(kind_); }
  std::int64_t kernels() const { return shape_.o * shape_.group_in(); }

  void stage(int i, const std::byte* from, std::byte* to) const {
    if (in_[i].dtype != compute_) {
      native::widen(in_[i].dtype, from, reinterpret_cast<float*>(to), product(in_[i].shape),
                    threads_);
      from = to;
    }
    if (turned(i)) turn(size_of(compute_), from, to, kernels(), shape_.taps(), threads_);
  }

  void unstage(std::byte* from, std::byte* to) const {
    const bool convert = out_[0].dtype != compute_;
    if (turned(2))
      turn(size_of(compute_), from, convert ? from : to, kernels(), shape_.taps(), threads_);
    if (convert)
      native::narrow(out_[0].dtype, reinterpret_cast<const float*>(from), to,
                     product(out_[0].shape), threads_);
  }

  ConvKind kind_;
  ConvShape shape_;
  bool turns_;  // the weight, by 180 degrees
  Operands operands_;
  DType compute_ = DType::F32;
  std::shared_ptr<const Chain> chain_;
};

/// The axes (batch, channels, rows, columns) of images with channels last, and back.
ArgDesc plain_desc(const ArgDesc& last) {
  const Dims& d = last.shape;
  return {last.dtype, {d[0], d[3], d[1], d[2]}, {d[3] * d[1] * d[2], d[1] * d[2], d[2], 1}};
}

/// oneDNN 2.6 reads what it never wrote in the gradient by filters of bfloat16 images that are
/// narrower than a stride.
bool bfloat16_is_right(ConvKind kind, const ConvShape& s) {
  return kind != ConvKind::GradWeight || s.w >= s.sw;
}

/// Null if oneDNN does not do it well.
std::unique_ptr<PreparedCall> by_onednn(const CallSite& site, ConvKind kind, const ConvShape& s) {
  if (site.runtime_sizes || s.work() == 0 || product(site.out[0].shape) == 0) return nullptr;
  if (site.out[0].dtype == DType::BF16 && has_bfloat16() && bfloat16_is_right(kind, s))
    if (auto call = ConvCall::make(site, kind, s, DType::BF16)) return call;
  return ConvCall::make(site, kind, s, DType::F32);
}

std::unique_ptr<PreparedCall> prepare_3d(const CallSite& site, ConvKind kind) {
  const native::ConvAttrs attrs(site.node->attrs);
  auto call = by_onednn(site, kind, attrs.sizes(kind, site.in[0], site.in[1], site.out[0]));
  return call ? std::move(call) : native::prepare_conv(site, kind);
}

std::unique_ptr<PreparedCall> prepare_last(const CallSite& site, ConvKind kind) {
  CallSite plain = site;
  for (int i = 0; i < 3; ++i)
    if (ArgDesc& a = i < 2 ? plain.in[i] : plain.out[0]; i != weight_operand(kind))
      a = plain_desc(a);
  const native::ConvAttrs attrs(site.node->attrs);
  auto call = by_onednn(site, kind, attrs.sizes(kind, plain.in[0], plain.in[1], plain.out[0]));
  return call ? std::move(call) : native::prepare_conv_last(site, kind);
}

}  // namespace

std::unique_ptr<PreparedCall> prepare_conv2d_last(const CallSite& site) {
  return prepare_last(site, ConvKind::Forward);
}
std::unique_ptr<PreparedCall> prepare_conv2d_grad_input_last(const CallSite& site) {
  return prepare_last(site, ConvKind::GradInput);
}
std::unique_ptr<PreparedCall> prepare_conv2d_grad_weight_last(const CallSite& site) {
  return prepare_last(site, ConvKind::GradWeight);
}
std::unique_ptr<PreparedCall> prepare_conv3d(const CallSite& site) {
  return prepare_3d(site, ConvKind::Forward);
}
std::unique_ptr<PreparedCall> prepare_conv3d_grad_input(const CallSite& site) {
  return prepare_3d(site, ConvKind::GradInput);
}
std::unique_ptr<PreparedCall> prepare_conv3d_grad_weight(const CallSite& site) {
  return prepare_3d(site, ConvKind::GradWeight);
}

}  // namespace snug::onednn
