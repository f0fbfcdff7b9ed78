#include "batches.h"

#include <nanobind/nanobind.h>

#include <optional>

namespace artesian::python {
namespace {

// A list or tuple, or anything that can be made one, of a known length.
class Sequence {
 public:
  explicit Sequence(PyObject* object, const char* what) : fast_(nanobind::steal(PySequence_Fast(object, what))) {
    if (!fast_.is_valid()) throw nanobind::python_error();
  }
  std::size_t size() const { return static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast_.ptr())); }
  PyObject* operator[](std::size_t i) const {
    return PySequence_Fast_GET_ITEM(fast_.ptr(), static_cast<Py_ssize_t>(i));
  }

 private:
  nanobind::object fast_;
};

// One for each key, or None.
class Optional {
 public:
  Optional(PyObject* object, std::size_t count, const char* what) {
    if (object == Py_None) return;
    values_.emplace(object, what);
    if (values_->size() != count) throw nanobind::value_error(what);
  }
  // Null: None, for all or for this one.
  PyObject* operator[](std::size_t i) const {
    if (!values_ || (*values_)[i] == Py_None) return nullptr;
    return (*values_)[i];
  }

 private:
  std::optional<Sequence> values_;
};

std::uint64_t number_at(const Sequence& tuple, std::size_t i) {
  const std::uint64_t value = PyLong_AsUnsignedLongLong(tuple[i]);
  if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
  return value;
}

BlockHints hints_of(PyObject* object) {
  if (object == nullptr) return {};
  const Sequence tuple(object, "hints: not a tuple");
  constexpr std::size_t fields = 6;
  if (tuple.size() != fields) throw nanobind::value_error("hints: not 6 numbers");
  return {.session = number_at(tuple, 0),
          .position = static_cast<std::uint32_t>(number_at(tuple, 1)),
          .tokens = static_cast<std::uint32_t>(number_at(tuple, 2)),
          .deadline_ms = number_at(tuple, 3),
          .next_use_ms = number_at(tuple, 4),
          .lifetime = static_cast<std::uint8_t>(number_at(tuple, 5))};
}

// The pieces of one block: a list or tuple of buffers, or one buffer.
template <typename Take>
auto pieces_of(PyObject* object, Take take) {
  std::vector<decltype(take(object))> pieces;
  if (PyList_Check(object) == 0 && PyTuple_Check(object) == 0) {
    pieces.push_back(take(object));
    return pieces;
  }
  const Sequence parts(object, "data: not a list of buffers");
  for (std::size_t i = 0; i < parts.size(); ++i) pieces.push_back(take(parts[i]));
  return pieces;
}

template <typename Items, typename Number>
PyObject* list_of(const Items& items, Number number) {
  auto list = nanobind::steal(PyList_New(static_cast<Py_ssize_t>(items.size())));
  if (!list.is_valid()) throw nanobind::python_error();
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyObject* value = PyLong_FromUnsignedLongLong(number(items[i]));
    if (value == nullptr) throw nanobind::python_error();
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), value);
  }
  return list.release().ptr();
}

template <typename Items>
PyObject* outcomes_of(const Items& items) {
  return list_of(items, [](const auto& item) { return static_cast<unsigned long long>(item.outcome); });
}

}  // namespace

Buffers::~Buffers() {
  for (Py_buffer& view : views_) PyBuffer_Release(&view);
}

std::span<std::byte> Buffers::take(PyObject* object, int flags) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, flags | PyBUF_C_CONTIGUOUS) != 0) throw nanobind::python_error();
  views_.push_back(view);
  return {static_cast<std::byte*>(view.buf), static_cast<std::size_t>(view.len)};
}

PyObject* AnyBatch::sizes() const {
  Py_RETURN_NONE;
}

PutBatch::PutBatch(PyObject* keys, PyObject* data, PyObject* parents, PyObject* attributes, PyObject* hints) {
  const Sequence names(keys, "keys: not a list"), blocks(data, "data: not a list");
  if (names.size() != blocks.size()) throw nanobind::value_error("data: not one for each key");
  const Optional before(parents, names.size(), "parents: not one for each key");
  const Optional notes(attributes, names.size(), "attributes: not one for each key");
  const Optional facts(hints, names.size(), "hints: not one for each key");
  const auto bytes_at = [&](const Optional& from, std::size_t i) {
    return from[i] == nullptr ? std::span<const std::byte>() : buffers.readable(from[i]);
  };
  pieces.reserve(names.size());  // the items point there
  for (std::size_t i = 0; i < names.size(); ++i) {
    pieces.push_back(pieces_of(blocks[i], [&](PyObject* object) { return buffers.readable(object); }));
    items.push_back({.key = buffers.readable(names[i]),
                     .parent = bytes_at(before, i),
                     .attributes = bytes_at(notes, i),
                     .pieces = pieces.back(),
                     .hints = hints_of(facts[i])});
  }
}

PyObject* PutBatch::outcomes() const {
  return outcomes_of(items);
}

GetBatch::GetBatch(PyObject* keys, PyObject* data) {
  const Sequence names(keys, "keys: not a list"), blocks(data, "buffers: not a list");
  if (names.size() != blocks.size()) throw nanobind::value_error("buffers: not one for each key");
  pieces.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    pieces.push_back(pieces_of(blocks[i], [&](PyObject* object) { return buffers.writable(object); }));
    items.push_back({.key = buffers.readable(names[i]), .pieces = pieces.back()});
  }
}

PyObject* GetBatch::outcomes() const {
  return outcomes_of(items);
}

PyObject* GetBatch::sizes() const {
  return list_of(items, [](const Get& item) { return static_cast<unsigned long long>(item.bytes); });
}

ProbeBatch::ProbeBatch(PyObject* keys) {
  const Sequence names(keys, "keys: not a list");
  for (std::size_t i = 0; i < names.size(); ++i) items.push_back({.key = buffers.readable(names[i])});
}

PyObject* ProbeBatch::outcomes() const {
  return outcomes_of(items);
}

}  // namespace artesian::python
