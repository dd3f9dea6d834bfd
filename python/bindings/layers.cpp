// The class Layer; functions and classes written in Python as layers.
//
// References of layers to Python objects can be part of a cycle: a function refers to the model it
// is in. So that the garbage collector sees them, a container made in Python holds the Python
// objects of its layers, and each such object visits what it alone holds.
#include "layers.h"

#include <nanobind/stl/shared_ptr.h>

#include "arguments.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;
using nn::Layer;
using nn::LayerPtr;
using nn::Named;
using nn::Pass;

std::string class_name(handle h) { return nb::cast<std::string>(h.type().attr("__name__")); }

/// A layer whose expression is made by Python code, which calls other layers.
class CallingLayer : public Layer {
 public:
  /// The name of a layer that the code calls.
  virtual std::string adopt(const LayerPtr& layer) = 0;

  /// What runs on this thread, and its pass.
  struct Running {
    CallingLayer* layer = nullptr;
    Pass* pass = nullptr;
  };
  static thread_local Running running;

 protected:
  Expr run(handle code, const Expr& x, Pass& pass) {
    const Running outer = std::exchange(running, {this, &pass});
    struct Restore {
      Running outer;
      ~Restore() { running = outer; }
    } restore{outer};
    const nb::object result = code(wrap(x));
    if (nb::isinstance<nb::tuple>(result) || nb::isinstance<nb::list>(result))
      fail(
          Fault::Type, fmt::format("{} gives {} values", describe(), nb::len(result)),
          "a layer gives one tensor: join them (T.concatenate, T.stack), or make a layer for each");
    return as_tensor(result, describe());
  }
};
thread_local CallingLayer::Running CallingLayer::running;

/// Holds a layer through its Python object.
struct HoldsObject {
  PyObject* object;
  void operator()(Layer*) const noexcept {
    if (!nb::is_alive()) return;  // the interpreter is gone, and the object with it
    nb::gil_scoped_acquire gil;
    Py_DECREF(object);
  }
};

LayerPtr held(handle h) { return LayerPtr(nb::cast<Layer*>(h), HoldsObject{h.inc_ref().ptr()}); }

/// A Python callable as a layer. Layers it calls become its inner layers, in the order of their
/// first calls.
class FunctionLayer : public CallingLayer {
 public:
  explicit FunctionLayer(handle f) : f_(nb::borrow(f)) {}
  ~FunctionLayer() override {
    if (!nb::is_alive()) f_.release();
  }
  std::string describe() const override {
    if (!f_) return "function";
    nb::gil_scoped_acquire gil;
    handle named = nb::hasattr(f_, "__name__") ? handle(f_) : handle(f_.type());
    return nb::cast<std::string>(named.attr("__name__"));
  }
  std::vector<Named> inner() const override { return layers_; }

  std::string adopt(const LayerPtr& layer) override {
    for (const Named& known : layers_)
      if (known.layer.get() == layer.get()) return known.name;
    if (called_)
      fail(Fault::Value,
           fmt::format("the function {} calls another layer than the first time: {}", describe(),
                       layer->describe()),
           "make layers once, outside the function");
    if (frozen()) layer->freeze();
    layers_.emplace_back(std::to_string(layers_.size()), held(nb::cast(layer)));
    return layers_.back().name;
  }

  PyObject* function() const { return f_.ptr(); }
  void forget_function() { nb::object gone = std::move(f_); }

 protected:
  Expr forward(const Expr& x, Pass& pass) override {
    Expr y = run(f_, x, pass);
    called_ = true;
    return y;
  }

 private:
  nb::object f_;
  std::vector<Named> layers_;
  bool called_ = false;
};

/// An object of a Python class that derives from Layer. Shared variables and layers among its
/// attributes, also in lists and dictionaries, are its parameters and inner layers.
class ObjectLayer : public CallingLayer {
 public:
  explicit ObjectLayer(handle self) : self_(self) {}
  std::string describe() const override {
    nb::gil_scoped_acquire gil;
    return class_name(self_);
  }

  std::vector<Named> inner() const override {
    nb::gil_scoped_acquire gil;
    std::vector<Named> layers;
    for_each_attribute([&](const std::string& name, handle value) {
      if (nb::isinstance<Layer>(value)) layers.emplace_back(name, held(value));
    });
    return layers;
  }

  /// Masks stay with the variables they are of.
  std::vector<nn::Parameter>& own() override {
    nb::gil_scoped_acquire gil;
    std::vector<nn::Parameter> now = made_;
    for_each_attribute([&](const std::string& name, handle value) {
      if (!is_variable(value)) return;
      const Expr variable = unwrap(value, "attribute");
      if (!as_shared(variable) || has(now, variable)) return;
      now.push_back({name, variable, is_float(variable.dtype())});
    });
    for (nn::Parameter& p : now)
      for (const nn::Parameter& before : own_)
        if (same(before.variable, p.variable)) p.mask = before.mask;
    own_ = std::move(now);
    return own_;
  }

  std::string adopt(const LayerPtr& layer) override {
    std::optional<std::string> found;
    visit([&](const std::string& path, Layer& inside) {
      if (&inside == layer.get() && !found) found = path;
    });
    if (!found || found->empty())
      fail(Fault::Value,
           fmt::format("{}.forward calls a layer that is not one of its attributes: {}", describe(),
                       layer->describe()),
           "make layers once, in __init__: self.name = ...");
    return *found;
  }

  /// The parameter of that name, made in the first pass.
  Expr parameter(const std::string& name, const Dims& shape, const nn::Initialiser& start,
                 bool trainable) {
    if (running.layer != this)
      fail(Fault::Value, fmt::format("{}.parameter is called outside forward", describe()),
           "in __init__ set an attribute to a shared variable");
    if (name.empty() || name.find('.') != name.npos)
      fail(Fault::Value, fmt::format("{}.parameter: \"{}\" is no name", describe(), name),
           "dots join the names of layers inside each other");
    for (const nn::Parameter& p : made_)
      if (p.name == name) {
        if (!(as_shared(p.variable)->shape() == shape))
          fail(Fault::Shape,
               fmt::format("{}.parameter: \"{}\" is {}, not {}", describe(), name,
                           describe_shape(as_shared(p.variable)->shape()), describe_shape(shape)));
        return p.variable;
      }
    for (std::int64_t size : shape)
      if (size < 0)
        fail(Fault::Shape,
             fmt::format("{}.parameter: the shape of \"{}\" is {}", describe(), name,
                         describe_shape(shape)),
             "sizes of parameters are numbers: call build with the sizes of the input");
    add(name, shape, start, fans_of(shape), trainable);
    // Sizes of parameters are fixed: an axis of size 1 stretches, as in NumPy.
    for (std::size_t k = 0; k < shape.size(); ++k)
      if (shape[k] == 1) own_.back().variable->type.broadcast |= static_cast<std::uint8_t>(1u << k);
    made_.push_back(own_.back());
    return made_.back().variable;
  }

  PyObject* object() const { return self_.ptr(); }

 protected:
  Expr forward(const Expr& x, Pass& pass) override { return run(self_.attr("forward"), x, pass); }

 private:
  static bool has(const std::vector<nn::Parameter>& all, const Expr& variable) {
    for (const nn::Parameter& p : all)
      if (same(p.variable, variable)) return true;
    return false;
  }

  /// (in, out), or filters (out, in, ...).
  static nn::Fans fans_of(const Dims& shape) {
    if (shape.size() < 2) return {};
    if (shape.size() == 2) return {static_cast<double>(shape[0]), static_cast<double>(shape[1])};
    const auto all = static_cast<double>(product(shape));
    return {all / static_cast<double>(shape[0]), all / static_cast<double>(shape[1])};
  }

  /// f(name, value) of the attributes, and "NAME.0", "NAME.key" of what is in them.
  template <class F>
  void for_each_attribute(F&& f) const {
    if (!nb::hasattr(self_, "__dict__")) return;
    for (auto [key, value] : nb::cast<nb::dict>(self_.attr("__dict__"))) {
      const std::string name = nb::cast<std::string>(key);
      if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
        std::size_t i = 0;
        for (handle item : value) f(fmt::format("{}.{}", name, i++), item);
      } else if (nb::isinstance<nb::dict>(value)) {
        for (auto [inner_key, item] : nb::cast<nb::dict>(value))
          f(fmt::format("{}.{}", name, nb::cast<std::string>(nb::str(inner_key))), item);
      } else {
        f(name, value);
      }
    }
  }

  handle self_;  // the object this is a part of
  std::vector<nn::Parameter> made_;
};

// ---- garbage collection ----

/// f(layer) of a layer and of those that it alone holds. `visit` gets the Python objects that they
/// hold, and nobody else through the same pointer.
template <class F, class Visit>
void for_each_held(Layer& top, F&& f, Visit&& visit) {
  constexpr long kHeldOnce = 2;  // by its place, and by the copy of it that inner() gave
  std::vector<Layer*> left{&top};
  while (!left.empty()) {
    Layer* layer = left.back();
    left.pop_back();
    f(*layer);
    for (const Named& part : layer->inner()) {
      if (part.layer.use_count() != kHeldOnce) continue;
      if (const auto* holder = std::get_deleter<HoldsObject>(part.layer))
        visit(holder->object);
      else
        left.push_back(part.layer.get());
    }
  }
}

/// The layer of an object that is its only owner; attributes of ObjectLayers are Python's.
Layer* owned_by(PyObject* self) {
  if (!nb::inst_ready(self)) return nullptr;
  Layer* layer = nb::inst_ptr<Layer>(self);
  if (dynamic_cast<ObjectLayer*>(layer)) return nullptr;
  return layer->weak_from_this().use_count() == 1 ? layer : nullptr;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Layer* layer = owned_by(self);
  if (!layer) return 0;
  int stop = 0;
  const auto see = [&](PyObject* object) {
    if (object && stop == 0) stop = visit(object, arg);
  };
  for_each_held(
      *layer,
      [&](Layer& l) {
        if (auto* f = dynamic_cast<FunctionLayer*>(&l)) see(f->function());
      },
      see);
  return stop;
}

int clear(PyObject* self) {
  Layer* layer = owned_by(self);
  if (!layer) return 0;
  std::vector<FunctionLayer*> functions;
  for_each_held(
      *layer,
      [&](Layer& l) {
        if (auto* f = dynamic_cast<FunctionLayer*>(&l)) functions.push_back(f);
      },
      [](PyObject*) {});
  for (FunctionLayer* f : functions) f->forget_function();
  return 0;
}

PyType_Slot kSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                        {Py_tp_clear, reinterpret_cast<void*>(clear)},
                        {0, nullptr}};

// ---- the class ----

/// Inside a layer written in Python: one of its inner layers, in the same pass.
Tensor call_layer(const LayerPtr& layer, handle x, std::optional<bool> training,
                  std::uint64_t seed) {
  UserLine line;
  const Expr input = as_tensor(x, "layer");
  if (auto [outer, pass] = CallingLayer::running; outer) {
    const std::string name = outer->adopt(layer);
    const bool before = std::exchange(pass->training, training.value_or(pass->training));
    Expr y = layer->call_inner(input, *pass, name);
    pass->training = before;
    return tensor_of(y);
  }
  Pass pass{.training = training.value_or(false), .seed = seed};
  return tensor_of((*layer)(input, pass));
}

/// Names of other libraries for what is `forward` here.
void require_forward(handle self) {
  handle type = self.type();
  const std::string name = class_name(self);
  const char* example =
      "write\n      class Net(nn.Layer):\n          def __init__(self):\n"
      "              super().__init__()\n              self.dense = nn.Dense(10)\n"
      "          def forward(self, x):\n              return self.dense(x)";
  if (type.is(nb::type<Layer>()))
    fail(Fault::Type, "nn.Layer is for classes that derive from it", example);
  const handle base = nb::type<Layer>();
  if (!type.attr("__call__").is(base.attr("__call__")))
    fail(Fault::Type, fmt::format("{} defines __call__, which makes the pass", name),
         "name the method forward(self, x)");
  if (nb::hasattr(type, "forward")) return;
  for (const char* other : {"call", "get_output_for", "apply"})
    if (nb::hasattr(type, other))
      fail(Fault::Type, fmt::format("{} has no method forward", name),
           fmt::format("name its method {}(self, x) forward(self, x)", other));
  fail(Fault::Type, fmt::format("{} has no method forward", name), example);
}

ObjectLayer& object_layer(Layer& layer) {
  if (auto* object = dynamic_cast<ObjectLayer*>(&layer)) return *object;
  fail(Fault::Type, fmt::format("{} has its parameters already", layer.describe()),
       "classes that derive from nn.Layer make their own");
}

nb::list variables_of(Layer& layer, bool trainable_only) {
  std::vector<Expr> variables;
  for (const nn::Parameter& p : layer.parameters())
    if (p.trainable || !trainable_only) variables.push_back(p.variable);
  return wrap_all(variables);
}

std::vector<Named> layers_inside(const Layer& layer) {
  std::vector<Named> all = layer.inner();
  if (all.empty())
    fail(Fault::Type, fmt::format("{} has no layers inside", layer.describe()),
         "functions have them after their first call");
  return all;
}

/// The place of a key: a number, from the end if negative, or a name.
std::size_t place_of(const Layer& layer, handle key) {
  const std::vector<Named> all = layers_inside(layer);
  if (nb::isinstance<nb::str>(key)) {
    const std::string name = nb::cast<std::string>(key);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].name == name) return i;
    layer.at(name);  // says which there are
    fail(Fault::Index, fmt::format("layer \"{}\" is inside another one", name),
         "replace it in the layer that it is in");
  }
  const std::int64_t given = integer_of(key, "layer"),
                     count = static_cast<std::int64_t>(all.size());
  const std::int64_t i = given < 0 ? given + count : given;
  if (i < 0 || i >= count)
    fail(Fault::Index, fmt::format("the model has {} layers, there is no number {}", count, given));
  return static_cast<std::size_t>(i);
}

nb::object get_part(const Layer& layer, handle key) {
  UserLine line;
  if (nb::isinstance<nb::slice>(key)) {
    Py_ssize_t begin = 0, end = 0, step = 1;
    if (PySlice_Unpack(key.ptr(), &begin, &end, &step) < 0) throw nb::python_error();
    const auto count = static_cast<Py_ssize_t>(layer.inner().size());
    const Py_ssize_t length = PySlice_AdjustIndices(count, &begin, &end, step);
    if (step != 1)
      fail(Fault::Value, fmt::format("layers: the step of a slice is {}", step),
           "nn.Sequential(*list(model)[::step]) takes any layers");
    LayerPtr part =
        layer.part(static_cast<std::size_t>(begin), static_cast<std::size_t>(begin + length));
    const std::vector<Named> layers = part->inner();
    for (std::size_t i = 0; i < layers.size(); ++i)
      part->replace(i, held(nb::cast(layers[i].layer)));
    return nb::cast(part);
  }
  if (nb::isinstance<nb::str>(key)) return nb::cast(layer.at(nb::cast<std::string>(key)));
  return nb::cast(layers_inside(layer)[place_of(layer, key)].layer);
}

void set_part(Layer& layer, handle key, handle value) {
  UserLine line;
  layer.replace(place_of(layer, key), layer_of(value, "layer"));
}

nb::list items_of(const Layer& layer) {
  nb::list items;
  for (const Named& part : layers_inside(layer))
    items.append(nb::make_tuple(part.name, nb::cast(part.layer)));
  return items;
}

/// Attributes of a class that derives from Layer need the layer, which __init__ makes.
void set_attribute(handle self, handle name, handle value) {
  if (!nb::inst_ready(self)) {
    UserLine line;
    fail(Fault::Type,
         fmt::format("{}.__init__ sets {} before the layer is there", class_name(self),
                     nb::cast<std::string>(name)),
         "call super().__init__() first");
  }
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value.ptr()) < 0) throw nb::python_error();
}

}  // namespace

LayerPtr layer_of(handle h, const char* what) {
  if (nb::isinstance<Layer>(h)) return held(h);
  if (PyCallable_Check(h.ptr()))
    return held(nb::cast(LayerPtr(std::make_shared<FunctionLayer>(h))));
  fail(Fault::Type, fmt::format("{}: a {} is no layer", what, class_name(h)),
       "give a layer or a function of an expression");
}

void bind_layers(nb::module_& m) {
  nb::class_<Layer, ObjectLayer>(
      m, "Layer", nb::type_slots(kSlots),
      "A callable that builds expressions; its parameters are shared variables.\n\n"
      "A class that derives from it has a method forward(self, x), which gives the expression of "
      "its\noutput. Layers and shared variables among its attributes are part of it.")
      .def("__init__",
           [](nb::pointer_and_handle<Layer> self) {
             UserLine line;
             require_forward(self.h);
             new (static_cast<void*>(self.p)) ObjectLayer(self.h);
           })
      .def("__setattr__", set_attribute)
      .def("__call__", call_layer, tensor_arg("x"), arg("training") = nb::none(),
           arg("seed") = nn::kDefaultSeed,
           "The output for x. In training dropout drops and batch normalisation uses the "
           "statistics of\nthe batch; the functions made of the result update the running ones. "
           "Parameters are made in\nthe first call.")
      .def(
          "build",
          [](nb::pointer_and_handle<Layer> layer, handle shape, std::uint64_t seed, handle dtype) {
            UserLine line;
            layer.p->build(dims_of(shape), seed, as_dtype(dtype));
            return nb::borrow(layer.h);
          },
          arg("shape"), arg("seed") = nn::kDefaultSeed, arg("dtype") = "floatX",
          "Makes the parameters for inputs of this shape; None: any size. Gives the layer.")
      .def(
          "parameters",
          [](Layer& layer, bool trainable) {
            UserLine line;
            return variables_of(layer, trainable);
          },
          arg("trainable") = true,
          "The shared variables that are trained, or with trainable=False also running statistics "
          "and\nthose of frozen layers.")
      .def(
          "state",
          [](Layer& layer) {
            UserLine line;
            nb::dict all;
            for (const nn::Parameter& p : layer.parameters())
              all[p.name.c_str()] = wrap(p.variable);
            return all;
          },
          "All parameters and running statistics, by name.")
      .def(
          "freeze",
          [](nb::pointer_and_handle<Layer> layer) {
            layer.p->freeze();
            return nb::borrow(layer.h);
          },
          "This layer and those inside it are not trained in expressions made from now on; batch\n"
          "normalisation keeps and uses its running statistics. Gives the layer.")
      .def(
          "unfreeze",
          [](nb::pointer_and_handle<Layer> layer) {
            layer.p->freeze(false);
            return nb::borrow(layer.h);
          },
          "This layer and those inside it are trained again. Gives the layer.")
      .def_prop_ro("frozen", &Layer::frozen)
      .def_prop_ro(
          "training",
          [](const Layer&) {
            const Pass* pass = CallingLayer::running.pass;
            return pass && pass->training;
          },
          "True in `forward` while an expression for training is made.")
      .def(
          "parameter",
          [](Layer& layer, const std::string& name, handle shape, handle start, bool trainable) {
            UserLine line;
            return tensor_of(object_layer(layer).parameter(name, dims_of(shape),
                                                           initialiser_of(start), trainable));
          },
          arg("name"), arg("shape"), arg("start") = "glorot_uniform", arg("trainable") = true,
          "In `forward`: the parameter of that name, which is made in the first call.")
      .def("__getitem__", get_part, arg("key"),
           "A layer inside by number, or by name or path ('features.0'); a slice of a Sequential "
           "is a\nSequential of the same layers.")
      .def("__setitem__", set_part, arg("key"), arg("layer"),
           "Puts another layer in the place of one inside.")
      .def("__len__",
           [](const Layer& layer) {
             UserLine line;
             return layers_inside(layer).size();
           })
      .def("__bool__", [](const Layer&) { return true; })
      .def("__iter__",
           [](const Layer& layer) {
             UserLine line;
             nb::list layers;
             for (const Named& part : layers_inside(layer)) layers.append(nb::cast(part.layer));
             return nb::iter(layers);
           })
      .def(
          "items",
          [](const Layer& layer) {
            UserLine line;
            return items_of(layer);
          },
          "Pairs (name, layer) of the layers inside, as Sequential takes them.")
      .def("__repr__", &Layer::describe);
}

}  // namespace snug::python
