#include <array>
#include <cstring>
#include <unordered_map>

#include "bindings.h"

namespace snug::python {
namespace {

/// The place of a frame without decoding its line table: code object and instruction.
struct Place {
  PyCodeObject* code = nullptr;
  int instruction = 0;
  bool operator==(const Place&) const = default;
};
struct Stack {
  std::array<Place, kMaxOriginFrames> places;
  std::size_t size = 0;
  bool operator==(const Stack& o) const {
    return size == o.size && std::equal(places.begin(), places.begin() + size, o.places.begin());
  }
};
struct StackHash {
  std::size_t operator()(const Stack& s) const {
    std::size_t h = s.size;
    for (std::size_t i = 0; i < s.size; ++i)
      h = h * 0x9e3779b97f4a7c15u + (reinterpret_cast<std::uintptr_t>(s.places[i].code) >> 4) +
          static_cast<std::size_t>(s.places[i].instruction);
    return h;
  }
};

// Guarded by the GIL. The keys own references to their code objects, so an address is never
// reused while it is a key.
constexpr std::size_t kMaxKnownStacks = 20000;
std::unordered_map<Stack, OriginId, StackHash>* known_stacks = nullptr;
std::unordered_map<PyObject*, bool>* ours = nullptr;  // file name object -> inside the package
std::string* package_directory = nullptr;

/// True if a file belongs to the package or to the start of Python, so that its frames are not
/// the user's.
bool is_ours(PyObject* file) {
  auto [it, fresh] = ours->try_emplace(file, false);
  if (fresh) {
    Py_INCREF(file);
    const char* text = PyUnicode_AsUTF8(file);
    if (!text) PyErr_Clear();
    it->second =
        text && ((!package_directory->empty() &&
                  std::strncmp(text, package_directory->c_str(), package_directory->size()) == 0) ||
                 std::strcmp(text, "<frozen runpy>") == 0);
  }
  return it->second;
}

void forget_stacks() {
  for (auto& [stack, id] : *known_stacks)
    for (std::size_t i = 0; i < stack.size; ++i) Py_DECREF(stack.places[i].code);
  known_stacks->clear();
}

const char* text_of(PyObject* unicode) {
  const char* text = PyUnicode_AsUTF8(unicode);
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

}  // namespace

OriginId origin_of_caller() {
  if (!PyGILState_Check()) return 0;
  Stack stack;
  PyFrameObject* frames[kMaxOriginFrames];
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame && stack.size < kMaxOriginFrames) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (!is_ours(code->co_filename)) {
      stack.places[stack.size] = {code, PyFrame_GetLasti(frame)};
      Py_INCREF(frame);
      frames[stack.size++] = frame;
    }
    Py_DECREF(code);  // the frame holds it
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);

  OriginId id = 0;
  if (stack.size > 0) {
    auto it = known_stacks->find(stack);
    if (it != known_stacks->end()) {
      id = it->second;
    } else {
      std::vector<Frame> out;
      for (std::size_t i = 0; i < stack.size; ++i) {
        out.push_back({text_of(stack.places[i].code->co_filename), PyFrame_GetLineNumber(frames[i]),
                       text_of(stack.places[i].code->co_name)});
      }
      id = intern_origin(out);
      if (known_stacks->size() >= kMaxKnownStacks) forget_stacks();
      for (std::size_t i = 0; i < stack.size; ++i) Py_INCREF(stack.places[i].code);
      known_stacks->emplace(stack, id);
    }
  }
  for (std::size_t i = 0; i < stack.size; ++i) Py_DECREF(frames[i]);
  return id;
}

void init_origins(nb::module_& m) {
  known_stacks = new std::unordered_map<Stack, OriginId, StackHash>;
  ours = new std::unordered_map<PyObject*, bool>;
  package_directory = new std::string;
  set_origin_hook(origin_of_caller);
  m.def(
      "_set_package_directory",
      [](std::string directory) {
        *package_directory = std::move(directory);
        ours->clear();
      },
      "Frames of files below this directory are not the user's.");
}

}  // namespace snug::python
