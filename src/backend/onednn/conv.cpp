#include "backend/native/conv.h"

#include <algorithm>
#include <array>
#include <optional>

#include "backend/native/call.h"
#include "backend/native/conv_last.h"
#include "backend/native/convert.h"
#include "backend/native/parallel.h"
#include "backend/onednn/conv_cut.h"
#include "backend/onednn/routines.h"

namespace snug::onednn {
namespace {

using native::ConvKind;
using native::ConvShape;

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
/// 1 x 1 filters with strides meet some of the pixels. Where oneDNN 2.6 copies these by itself, it
/// is slower with AVX2 than a reorder of ours, after which the filters move over every pixel; and
/// its gradient by filters is wrong: with channels last it books `c` elements per pixel in its
/// scratchpad but starts a pixel's copy after as many blocks of channels (8 or 16) as there are
/// pixels before it, so that with fewer channels than a block threads write into each other's
/// copies and past the scratchpad.
bool gathers(ConvKind kind, const ConvShape& s) {
  constexpr std::int64_t kBlock = 16;
  return kind != ConvKind::GradInput && s.axes == 2 && s.groups == 1 && s.taps() == 1 &&
         s.sh * s.sw > 1 && s.top == 0 && s.left == 0 && (s.oh - 1) * s.sh < s.h &&
         (s.ow - 1) * s.sw < s.w &&
         (has_avx512() ? kind == ConvKind::GradWeight && s.c < kBlock : true);
}
ConvShape gathered_shape(const ConvShape& s) {
  ConvShape t = s;
  t.h = s.oh, t.w = s.ow;
  t.sh = t.sw = 1;
  t.bottom = t.right = 0;
  return t;
}
/// Of a convolution of floats with channels last: whether oneDNN does it by `chain` better than
/// columns and products do. Its own columns (`gemm`) are not; its direct code works on filters
/// padded to whole blocks of channels, which it reorders before (or after) the work, and as a
/// forward convolution a gradient by images has a window for each pixel of x.
bool beats_columns(const ConvChain& chain, ConvKind kind, const ConvShape& given, bool as_forward) {
  if (chain.implementation.find("gemm") != std::string::npos) return false;
  const dnnl_memory_desc_t& filters = chain.filters.data;
  double padded = 1;
  for (int k = 0; k < filters.ndims; ++k)
    padded *= static_cast<double>(filters.padded_dims[k]) / static_cast<double>(filters.dims[k]);
  // oneDNN 2.6 on CPUs of Intel: up to 80 times as long as its padded work.
  if (kind == ConvKind::GradWeight && given.groups > 1 && padded > 1 &&
      chain.implementation == "jit:avx2")
    return false;
  const double windows =
      as_forward ? static_cast<double>(given.image()) / static_cast<double>(given.plane()) : 1;
  const double weights = static_cast<double>(given.o * given.group_in() * given.taps());
  // By the times of random shapes (benchmarks/convolution_sweep.cpp): reordering an element takes
  // as long as so many multiply-adds; and as products of few rows or columns are slow, columns
  // have to be so much less work.
  constexpr double kReorder = 32, kNarrow = 2.5;
  const double cost =
      static_cast<double>(given.work()) * padded * windows + weights * padded * kReorder;
  return cost < kNarrow * native::ColumnConv(kind, given).cost();
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

/// Where an operand is: in the call's arguments, or converted or turned in the workspace.
struct Operand {
  bool staged = false;
  std::uint64_t offset = 0;
};
using Operands = std::array<Operand, 3>;  // input 0, input 1, output

/// Parts of a convolution, each done by one thread; the sizes alone decide which they are.
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
    const native::OmpThreads alone(1);
    for (const auto& chain : cut_.chains) chain->make_ready();
    for (const FilterLayout& layout : cut_.layouts)
      if (layout.slices.chain) layout.slices.chain->make_ready();
  }
  void count_code(CodeCount& count) const override {
    for (const auto& chain : cut_.chains) count.add(chain.get(), chain->code_bytes());
    for (const FilterLayout& layout : cut_.layouts)
      if (const auto& chain = layout.slices.chain) count.add(chain.get(), chain->code_bytes());
  }

  void run(const RunArgs& args) const override {
    std::byte* at[3] = {args.in[0], args.in[1], args.out[0]};
    for (int i = 0; i < 3; ++i) {
      if (!operands_[i].staged) continue;
      at[i] = args.workspace + operands_[i].offset;
      if (i < 2) stage(i, args.in[i], at[i]);
    }
    if (as_forward_) std::swap(at[0], at[1]);
    std::byte* const shared = args.workspace + shared_;
    std::byte* const slots = args.workspace + slots_;
    if (kind_ != ConvKind::GradWeight)
      for (const FilterLayout& layout : cut_.layouts)
        reorder(layout, at[filter_input()], shared + layout.offset, slots);
    run_parts(at, shared, slots);
    if (cut_.sums > 0) add_sums(shared, cut_.layouts[0].slices.plain ? at[2] : shared);
    if (kind_ == ConvKind::GradWeight)
      for (const FilterLayout& layout : cut_.layouts) reorder(layout, at[2], shared, slots);
    if (operands_[2].staged) unstage(at[2], args.out[0]);
  }

 private:
  ConvCall(const CallSite& site, ConvKind kind, const ConvShape& s, bool turns, bool as_forward)
      : Call(site), kind_(kind), shape_(s), turns_(turns), as_forward_(as_forward) {}

  static std::unique_ptr<ConvCall> make(const CallSite& site, ConvKind kind, const ConvShape& s,
                                        DType compute, bool as_forward) {
    ConvPart whole{kind, s, compute, s.c, s.o};
    whole.filter_channels = s.group_in();
    if (as_forward) {
      whole.kind = ConvKind::Forward;
      whole.shape = forward_shape(s);
      whole.swapped = true;
      std::swap(whole.x_channels, whole.y_channels);
    }
    if (gathers(kind, s)) {
      whole.shape = gathered_shape(s);
      whole.gather_h = s.h, whole.gather_w = s.w;
      whole.gather_sh = s.sh, whole.gather_sw = s.sw;
    }
    std::optional<ConvCut> cut = cut_convolution(whole);
    if (!cut) return nullptr;
    if (compute == DType::F32 && s.axes == 2 && native::ColumnConv::takes(s) &&
        !beats_columns(*cut->chains[0], kind, s, as_forward))
      return nullptr;
    const bool turns = s.flip != as_forward && s.taps() > 1;
    auto call = std::unique_ptr<ConvCall>(new ConvCall(site, kind, s, turns, as_forward));
    call->compute_ = compute;
    call->cut_ = std::move(*cut);
    call->place_workspace();
    return call;
  }

  /// Staged operands, filters or sums of them, and what each thread needs.
  void place_workspace() {
    const bool convert = out_[0].dtype != compute_;
    for (int i = 0; i < 3; ++i) {
      operands_[i].staged = convert || turned(i);
      if (!operands_[i].staged) continue;
      operands_[i].offset = workspace;
      const Dims& shape = (i < 2 ? in_[i] : out_[0]).shape;
      workspace += native::align64(product(shape) * size_of(compute_));
    }
    shared_ = workspace;
    workspace += cut_.shared_bytes;
    slots_ = workspace;
    const auto parts = static_cast<std::int64_t>(cut_.parts.size());
    workspace +=
        cut_.slot_bytes * std::max<std::int64_t>(1, std::min<std::int64_t>(threads_, parts));
  }

  int filter_input() const { return kind_ == ConvKind::GradInput && !as_forward_ ? 0 : 1; }

  /// Filters between their plain order and that of the library.
  void reorder(const FilterLayout& layout, std::byte* plain, std::byte* library,
               std::byte* slots) const {
    const FilterSlices& slices = layout.slices;
    if (!slices.chain) return;
    const bool back = kind_ == ConvKind::GradWeight;
    const std::int64_t bytes = size_of(compute_);
    const std::int64_t work = shape_.o * shape_.group_in() * shape_.taps();
    parallel_slots(slices.count, work, slot_count(),
                   [&](std::int64_t slot, std::int64_t k, std::int64_t end) {
                     const native::OmpThreads alone(1);
                     for (; k < end; ++k) {
                       std::byte* from = plain + k * slices.plain_step * bytes;
                       std::byte* to = library + k * slices.library_step * bytes;
                       if (back) std::swap(from, to);
                       slices.chain->run(&from, &to, slots + slot * cut_.slot_bytes);
                     }
                   });
  }

  int slot_count() const {
    return static_cast<int>(std::min<std::size_t>(threads_, cut_.parts.size()));
  }

  void run_parts(std::byte* const* at, std::byte* shared, std::byte* slots) const {
    const std::int64_t bytes = size_of(compute_);
    const bool by_filters = kind_ == ConvKind::GradWeight;
    parallel_slots(static_cast<std::int64_t>(cut_.parts.size()), shape_.work(), slot_count(),
                   [&](std::int64_t slot, std::int64_t k, std::int64_t end) {
                     const native::OmpThreads alone(1);
                     for (; k < end; ++k) {
                       const PlacedPart& part = cut_.parts[k];
                       std::byte* in[2] = {at[0] + part.in0 * bytes, at[1] + part.in1 * bytes};
                       std::byte* out = at[2] + part.out * bytes;
                       if (part.layout >= 0 && cut_.layouts[part.layout].slices.chain) {
                         std::byte* const filters = shared + cut_.layouts[part.layout].offset;
                         (by_filters ? out : in[filter_input()]) = filters;
                       }
                       if (by_filters && cut_.sums > 0) out = shared + k * cut_.sum_bytes;
                       cut_.chains[part.chain]->run(in, &out, slots + slot * cut_.slot_bytes);
                     }
                   });
  }

  /// All sums, in their order. `result` may be the first.
  void add_sums(const std::byte* sums, std::byte* result) const {
    const auto to = reinterpret_cast<float*>(result);
    const auto count = static_cast<std::int64_t>(cut_.layouts[0].desc.get_size() / sizeof(float));
    parallel_ranges(count, count * cut_.sums, threads_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = 0; k < cut_.sums; ++k) {
        const auto from = reinterpret_cast<const float*>(sums + k * cut_.sum_bytes);
        if (k > 0)
          for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
        else if (from != to)
          std::copy(from + begin, from + end, to + begin);
      }
    });
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
  bool turns_;       // the weight, by 180 degrees
  bool as_forward_;  // a gradient by images by a forward convolution: (dy, w) -> dx
  Operands operands_;
  DType compute_ = DType::F32;
  ConvCut cut_;
  std::uint64_t shared_ = 0, slots_ = 0;  // in the workspace
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
