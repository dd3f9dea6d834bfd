// Pickling and deep copies of expressions. What a variable reaches is saved at once, as a Part; a
// variable reduces to (part, number). While a pickler or a deepcopy remembers a part, variables
// that it holds are not saved again, so that one expression is one object afterwards, too, and a
// long chain needs no recursion. When the pickler is gone, so is the part.
#include <unordered_map>

#include "expr/serialize.h"
#include "node_object.h"
#include "numpy_api.h"

namespace snug::python {
namespace {

struct Part;
struct InPart {
  Part* part;
  std::size_t number;
};
/// Of the parts that are being pickled. Guarded by the GIL.
std::unordered_map<Variable*, InPart>* saved_parts = nullptr;

struct Part {
  std::vector<Expr> variables;  // by number; some of them from outside
  std::string bytes;            // of a part that was saved, and what goes with them
  std::vector<Expr> outside;
  std::vector<Array> values;

  Part() = default;
  Part(const Part&) = delete;
  ~Part() {
    for (const Expr& e : variables)
      if (auto it = saved_parts->find(e.get()); it != saved_parts->end() && it->second.part == this)
        saved_parts->erase(it);
  }
};

/// The part that holds an expression, and its number there.
std::pair<nb::object, std::size_t> part_of(const Expr& e) {
  if (auto it = saved_parts->find(e.get()); it != saved_parts->end())
    return {nb::find(it->second.part), it->second.number};
  auto part = std::make_unique<Part>();
  SaveOptions options;
  options.is_outside = [](const Expr& x) { return saved_parts->count(x.get()) != 0; };
  options.outside = &part->outside;
  options.values = &part->values;
  options.variables = &part->variables;
  part->bytes = save_graph(std::span(&e, 1), options);
  std::size_t number = 0;
  for (std::size_t i = 0; i < part->variables.size(); ++i) {
    saved_parts->try_emplace(part->variables[i].get(), InPart{part.get(), i});
    if (same(part->variables[i], e)) number = i;
  }
  return {nb::cast(part.release(), nb::rv_policy::take_ownership), number};
}

/// What Python objects of expressions know beyond their nodes: (number, attributes, (base, key) of
/// x[key], strict, downcast).
nb::list attributes_of(const Part& part) {
  nb::list out;
  for (std::size_t i = 0; i < part.variables.size(); ++i) {
    RefCounted* node = part.variables[i].get();
    auto it = saved_parts->find(part.variables[i].get());
    if (!node->script_object() || it == saved_parts->end() || it->second.part != &part) continue;
    NodeObject* object = node_object(static_cast<PyObject*>(node->script_object()));
    nb::object dict = nb::none();
    if (object->dict && PyDict_Size(object->dict) > 0) {
      dict = nb::steal(PyDict_Copy(object->dict));
      if (PyDict_DelItemString(dict.ptr(), "_eval_cache") < 0) PyErr_Clear();  // made again
    }
    const bool plain = dict.is_none() || PyDict_Size(dict.ptr()) == 0;
    const bool shared = as_shared(part.variables[i]) != nullptr;
    if (plain && !object->indexed && !shared) continue;
    out.append(nb::make_tuple(i, plain ? nb::none() : dict,
                              object->indexed ? nb::borrow(object->indexed) : nb::none(),
                              object->strict, static_cast<int>(object->downcast)));
  }
  return out;
}

void set_attributes(Part& part, nb::handle list) {
  for (nb::handle h : nb::iter(list)) {
    nb::object item = nb::borrow(h);
    nb::object v = wrap(part.variables.at(nb::cast<std::size_t>(item[0])));
    nb::object dict = item[1], indexed = item[2];
    if (!dict.is_none()) v.attr("__dict__").attr("update")(dict);
    if (PyTuple_Check(indexed.ptr()) && PyTuple_GET_SIZE(indexed.ptr()) == 2)
      set_indexed(v, indexed);
    node_object(v)->strict = nb::cast<bool>(item[3]);
    const int downcast = nb::cast<int>(item[4]);
    if (downcast >= 0 && downcast <= static_cast<int>(Downcast::Always))
      node_object(v)->downcast = static_cast<Downcast>(downcast);
  }
}

nb::object load_part(nb::bytes bytes, nb::handle outside, nb::handle values) {
  auto part = std::make_unique<Part>();
  std::vector<Expr> given = unwrap_all(outside, "load");
  std::vector<Array> arrays;
  for (nb::handle h : nb::iter(values)) arrays.push_back(array_from(as_ndarray(h)));
  LoadOptions options;
  options.outside = given;
  options.values = arrays;
  options.variables = &part->variables;
  load_graph({bytes.c_str(), bytes.size()}, options);
  return nb::cast(part.release(), nb::rv_policy::take_ownership);
}

}  // namespace

PyObject* reduce_variable(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    auto [part, number] = part_of(Expr(Ref<Variable>(variable_of(self))));
    nb::object make = nb::module_::import_("snug._pickle").attr("expression");
    return nb::make_tuple(make, nb::make_tuple(part, number)).release().ptr();
  });
}

void bind_pickle(nb::module_& m) {
  saved_parts = new std::unordered_map<Variable*, InPart>;
  nb::class_<Part>(m, "_Part", "Expressions that are pickled or copied together.")
      .def("__reduce_ex__",
           [](nb::handle self, int) {
             const Part& part = nb::cast<const Part&>(self);
             nb::list values;
             for (const Array& a : part.values) values.append(export_array(a));
             nb::dict state;
             state["attributes"] = attributes_of(part);
             return nb::make_tuple(nb::module_::import_("snug._pickle").attr("load"),
                                   nb::make_tuple(nb::bytes(part.bytes.data(), part.bytes.size()),
                                                  wrap_all(part.outside), values),
                                   nb::make_tuple(nb::none(), state));
           })
      .def_prop_rw(
          "attributes", [](nb::handle) { return nb::none(); },
          [](Part& part, nb::handle list) { set_attributes(part, list); });
  m.def("_load", load_part, nb::arg("bytes"), nb::arg("outside"), nb::arg("values"));
  m.def(
      "_expression",
      [](const Part& part, std::size_t number) {
        if (number >= part.variables.size())
          fail(Fault::Value, "load: there is no such expression in the part");
        return wrap(part.variables[number]);
      },
      nb::arg("part"), nb::arg("number"));
  m.def(
      "save_graph",
      [](nb::handle roots) {
        std::vector<Expr> all = unwrap_all(roots, "save_graph");
        std::string bytes = save_graph(all);
        return nb::bytes(bytes.data(), bytes.size());
      },
      nb::arg("roots"), "Expressions with all they reach as bytes, without code.");
  m.def(
      "load_graph",
      [](nb::bytes bytes) {
        return wrap_all(load_graph({bytes.c_str(), bytes.size()}));
      },
      nb::arg("bytes"), "What save_graph saved, as new expressions.");
}

}  // namespace snug::python
