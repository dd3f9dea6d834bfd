#include "nn/layer.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ops/arguments.h"

namespace snug::nn {
namespace {

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() || name.empty() ? path + name : path + "." + name;
}

/// A seed that follows from that of the model and the name of the parameter.
std::uint64_t seed_of(std::uint64_t seed, const std::string& name) {
  std::uint64_t h = 0xcbf29ce484222325ull ^ seed;
  for (unsigned char c : name) h = (h ^ c) * 0x100000001b3ull;
  return h ^ (h >> 29);
}

/// "layer features.0: Dense(128)"
std::string place_of(const std::string& path, const Layer& layer) {
  return path.empty() ? layer.describe() : fmt::format("layer {}: {}", path, layer.describe());
}

/// The path of a pass is that of a layer inside the current one.
struct PathScope {
  PathScope(Pass& p, const std::string& name) : pass(p), outer(p.path) {
    pass.path = joined(outer, name);
  }
  ~PathScope() { pass.path = outer; }
  PathScope(const PathScope&) = delete;
  Pass& pass;
  const std::string outer;
};

}  // namespace

std::int64_t Parameter::size() const {
  const SharedVariable* const shared = as_shared(variable);
  if (!shared) fail(Fault::Type, fmt::format("parameter {}: is no shared variable", name));
  return product(shared->shape());
}

Expr Layer::operator()(const Arg& x, Pass& pass) {
  Scope scope(x);
  require_expr("layer", x.expr);
  return call_inner(x.expr, pass, "");
}

Expr Layer::operator()(const Arg& x) {
  Pass pass;
  return (*this)(x, pass);
}

Expr Layer::call_inner(const Expr& x, Pass& pass, const std::string& name) {
  const PathScope scope(pass, name);
  const bool leaf = inner().empty();
  Expr y;
  try {
    make_for(&x, pass.path, pass.seed);
    const OriginOverride origin(leaf && !pass.path.empty()
                                    ? origin_in_part(current_origin(), "layer " + pass.path)
                                    : current_origin());
    y = forward(x, pass);
  } catch (Error& e) {
    if (leaf && e.fault() != Fault::Internal)
      e.reword(fmt::format("{} ({})", e.message(), place_of(pass.path, *this)), e.hint());
    throw;
  }
  if (pass.visited && (leaf || !own().empty())) pass.visited({pass.path, *this, x, y});
  return y;
}

void Layer::make_for(const Expr* x, const std::string& path, std::uint64_t seed) {
  making_path_ = path;
  making_seed_ = seed;
  if (!parametric_) return;
  std::int64_t size = size_;
  if (x && axis_ != kNoAxis) {
    const int axis = axis_ < 0 ? x->ndim() + axis_ : axis_;
    if (axis < 0 || axis >= x->ndim())
      fail(Fault::Type, fmt::format("the input has {} dimensions, at least {} are needed",
                                    x->ndim(), axis_ < 0 ? -axis_ : axis_ + 1));
    const std::int64_t known = x->type().shape[static_cast<std::size_t>(axis)];
    if (known >= 0 && size > 0 && known != size)
      fail(Fault::Shape,
           fmt::format("the input has size {} on axis {}, the layer is for {}", known, axis, size));
    if (size <= 0) size = known;
  }
  if (made_) return;
  if (size <= 0)
    fail(Fault::Shape,
         fmt::format("the size of axis {} of the input is not known, which the parameters need{}",
                     axis_, x ? "" : fmt::format(" ({})", place_of(path, *this))),
         "call build with the sizes of the input, or give the layer its input size");
  try {
    make(size);
  } catch (...) {
    own_.clear();
    throw;
  }
  size_ = size;
  made_ = true;
}

void Layer::add(const std::string& name, const Dims& shape, const Initialiser& initialiser,
                const Fans& fans, bool trainable) {
  const std::string full = joined(making_path_, name);
  own_.push_back(
      {name, initialiser.make(full, shape, fans, seed_of(making_seed_, full)), trainable});
}

void Layer::build(const Dims& sizes, std::uint64_t seed, DType dtype, Here where) {
  const FallbackOrigin origin(where);
  Pass pass{.seed = seed};
  (*this)(input({dtype, sizes, 0}), pass);
}

void Layer::visit(const std::function<void(const std::string& path, Layer& layer)>& f) {
  std::unordered_set<const Layer*> seen;
  const std::function<void(const std::string&, Layer&)> go = [&](const std::string& path,
                                                                 Layer& layer) {
    if (!seen.insert(&layer).second) return;
    f(path, layer);
    for (const Named& part : layer.inner()) go(joined(path, part.name), *part.layer);
  };
  go("", *this);
}

std::vector<Parameter> Layer::parameters() {
  std::vector<Parameter> all;
  std::unordered_set<const Variable*> seen;
  visit([&](const std::string& path, Layer& layer) {
    if (!layer.made_) layer.make_for(nullptr, path, kDefaultSeed);
    for (Parameter p : layer.own()) {
      if (!seen.insert(p.variable.get()).second) continue;
      p.name = joined(path, p.name);
      p.trainable = p.trainable && !layer.frozen_;
      all.push_back(std::move(p));
    }
  });
  return all;
}

std::vector<Expr> Layer::trainable() {
  std::vector<Expr> variables;
  for (const Parameter& p : parameters())
    if (p.trainable) variables.push_back(p.variable);
  return variables;
}

void Layer::freeze(bool frozen) {
  visit([&](const std::string&, Layer& layer) { layer.frozen_ = frozen; });
}

LayerPtr Layer::at(const std::string& path) const {
  std::vector<std::string> names;
  for (const Named& part : inner()) {
    if (path == part.name) return part.layer;
    if (path.starts_with(part.name + ".")) return part.layer->at(path.substr(part.name.size() + 1));
    names.push_back(part.name);
  }
  const std::string text = describe();
  fail(
      Fault::Index, fmt::format("{} has no layer \"{}\"", text.substr(0, text.find('(')), path),
      names.empty() ? "it has no layers inside" : fmt::format("it has {}", fmt::join(names, ", ")));
}

void Layer::replace(std::size_t, LayerPtr) {
  fail(Fault::Type, fmt::format("{}: the layers inside cannot be replaced", describe()),
       "Sequential, Residual, Concat and Skip can");
}

LayerPtr Layer::part(std::size_t, std::size_t) const {
  fail(Fault::Type, fmt::format("{} has no parts", describe()),
       "slices are of Sequential; take single layers by number or name");
}

}  // namespace snug::nn
