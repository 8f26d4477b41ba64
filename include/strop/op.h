// SPDX-License-Identifier: Apache-2.0
//
// What an op is. An OpDef holds an op's contract: name, shape inference, a
// plain reference kernel and the facts that planning needs. Strop's own ops
// and those of users are described alike; a CustomOpDomain is a list of
// OpDefs:
//
//   // y = 2 x
//   constexpr strop::OpDef kTwice = {
//       .name = "Twice",
//       .domain = "example",
//       .infer = [](strop::InferContext& c) {
//         c.SetOutput(0, c.input(0).type, c.input(0).shape);
//       },
//       .reference = strop::Instantiate<strop::Floats>(
//           []<class T>(const strop::KernelContext& c) {
//             auto x = c.in<T>(0);
//             auto y = c.out<T>(0);
//             for (size_t i = 0; i < y.size(); ++i) y[i] = 2 * x[i];
//           })};
//   const strop::CustomOpDomain domain = {"example", {&kTwice}};
//
// Node, shapes and tensors that the contexts hand out live during the call.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strop/error.h"
#include "strop/platform.h"
#include "strop/random.h"
#include "strop/tensor.h"

namespace strop {

class GradientContext;
struct KernelRequest;  // execution_provider.h
struct Node;
class Graph;
class ThreadPool;

// Read access to a node: who it is and its attributes. A getter with a
// fallback returns it when the attribute is absent; one of another kind than
// asked for throws kInvalidGraph naming node and attribute.
class STROP_EXPORT OpNode {
 public:
  OpNode(const Graph& graph, const Node& node) : graph_(&graph), node_(&node) {}

  std::string_view op_type() const;
  std::string_view domain() const;
  // `[MatMul "fc1"]`: how every error about this node begins.
  std::string Describe() const;

  bool Has(std::string_view attribute) const;
  int64_t Int(std::string_view attribute, int64_t fallback) const;
  int64_t Int(std::string_view attribute) const;  // throws when absent
  float Float(std::string_view attribute, float fallback) const;
  std::string_view String(std::string_view attribute,
                          std::string_view fallback) const;
  // Empty when absent.
  std::span<const int64_t> Ints(std::string_view attribute) const;
  std::span<const float> Floats(std::string_view attribute) const;
  // Nullopt when absent.
  std::optional<Tensor> TensorAttribute(std::string_view attribute) const;

  const Graph& graph() const { return *graph_; }
  const Node& node() const { return *node_; }

  // Throws an Error: "[Op "name"] text".
  [[noreturn]] void Fail(std::string_view text,
                         ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  const Graph* graph_;
  const Node* node_;
};

struct TensorInfo {
  DataType type = DataType::kUndefined;  // kUndefined: left out
  Shape shape;
};

// What is known of a value when a plan is made.
struct ValueInfo {
  TensorInfo tensor;
  bool is_list = false;
  std::vector<TensorInfo> list;
  // The value itself where it is known before the step runs.
  const Tensor* known = nullptr;
};

// Shape and type inference of one node with concrete shapes.
class STROP_EXPORT InferContext {
 public:
  InferContext(OpNode node, std::span<const ValueInfo* const> inputs,
               std::span<ValueInfo* const> outputs)
      : node_(node), inputs_(inputs), outputs_(outputs) {}

  const OpNode& node() const { return node_; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  bool has_input(size_t i) const {
    return i < inputs_.size() && inputs_[i] != nullptr;
  }
  bool has_output(size_t i) const {
    return i < outputs_.size() && outputs_[i] != nullptr;
  }

  // Type and shape of input i; throws when it is left out or is a list.
  const TensorInfo& input(size_t i) const;
  // The tensors of a list input.
  std::span<const TensorInfo> list(size_t i) const;
  // The value of an input that OpDef::value_inputs names; the plan is not
  // made before it is known.
  const Tensor& value(size_t i) const;
  // The same as int64 numbers, from an int32 or int64 tensor.
  std::vector<int64_t> IntValues(size_t i) const;

  // Does nothing for an output that is left out.
  void SetOutput(size_t i, DataType type, const Shape& shape);
  void SetListOutput(size_t i, std::vector<TensorInfo> tensors);

 private:
  OpNode node_;
  std::span<const ValueInfo* const> inputs_;
  std::span<ValueInfo* const> outputs_;
};

// A value while a step runs.
struct Argument {
  Tensor tensor;
  std::span<const Tensor> list;  // for values that are lists
};

// What a kernel sees. Everything is bound before; a kernel allocates nothing.
class STROP_EXPORT KernelContext {
 public:
  KernelContext(OpNode node, std::span<const Argument* const> inputs,
                std::span<const Argument* const> outputs)
      : node_(node), inputs_(inputs), outputs_(outputs) {}

  const OpNode& node() const { return node_; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  bool has_input(size_t i) const {
    return i < inputs_.size() && inputs_[i] != nullptr;
  }
  bool has_output(size_t i) const {
    return i < outputs_.size() && outputs_[i] != nullptr;
  }
  const Tensor& input(size_t i) const { return inputs_[i]->tensor; }
  const Tensor& output(size_t i) const { return outputs_[i]->tensor; }
  std::span<const Tensor> list(size_t i) const { return inputs_[i]->list; }

  // Elements of an input or output; T must be its element type.
  template <class T>
  std::span<const T> in(size_t i) const {
    return input(i).values<T>();
  }
  template <class T>
  std::span<T> out(size_t i) const {
    return output(i).values<T>();
  }
  // The one element of an input of any shape.
  template <class T>
  T scalar(size_t i) const {
    return in<T>(i)[0];
  }

  // Scratch of the size that the kernel asked for, 64-byte aligned.
  std::byte* scratch() const { return scratch_; }

  // Runs fn(begin, end) over parts of [0, n) on the session's threads.
  // `cost` is the rough cost of one item in nanoseconds: small loops stay on
  // this thread.
  void ParallelFor(int64_t n, double cost, RangeFunction fn) const;
  int num_threads() const { return num_threads_; }

  // The random stream of this node in this step.
  const RandomKey& random() const { return random_; }

  // The same run of the node with other tensors and scratch.
  KernelContext With(std::span<const Argument* const> inputs,
                     std::span<const Argument* const> outputs,
                     std::byte* scratch) const {
    KernelContext context = *this;
    context.inputs_ = inputs;
    context.outputs_ = outputs;
    context.scratch_ = scratch;
    return context;
  }

  // Set by the executor.
  void set_scratch(std::byte* scratch) { scratch_ = scratch; }
  void set_threads(ThreadPool* pool, int num_threads) {
    pool_ = pool;
    num_threads_ = num_threads;
  }
  void set_random(const RandomKey& key) { random_ = key; }

 private:
  OpNode node_;
  std::span<const Argument* const> inputs_;
  std::span<const Argument* const> outputs_;
  std::byte* scratch_ = nullptr;
  ThreadPool* pool_ = nullptr;
  int num_threads_ = 1;
  RandomKey random_;
};

// --- Reference kernels over named lists of element types.

template <class... T>
struct TypeList {};
using Floats = TypeList<float, double>;
using Integers = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                          uint32_t, uint64_t>;
using Numbers = TypeList<float, double, int8_t, int16_t, int32_t, int64_t,
                         uint8_t, uint16_t, uint32_t, uint64_t>;
using AllTypes =
    TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t,
             uint16_t, uint32_t, uint64_t, bool, Float16, Bfloat16>;
using Bools = TypeList<bool>;
using Indices = TypeList<int32_t, int64_t>;

// Calls fn.template operator()<T>() for the T in List whose DataType is
// `type`; returns false if there is none.
template <class... T, class F>
bool DispatchType(TypeList<T...>, DataType type, F&& fn) {
  return ((DataTypeOf<T>() == type && (fn.template operator()<T>(), true)) ||
          ...);
}

struct ReferenceKernel {
  using Run = void (*)(const KernelContext&);
  using Supports = bool (*)(DataType);
  // Bytes of scratch for the request's shapes.
  using ScratchBytes = size_t (*)(const KernelRequest&);
  Run run = nullptr;
  Supports supports = nullptr;
  // The input whose element type selects the instance; -1: the first output.
  int type_input = 0;
  ScratchBytes scratch_bytes = nullptr;  // null: none
};

// The kernel `fn.template operator()<T>(context)` for each T in List. `fn` is
// a lambda without captures. The 16-bit types need not be in List: where
// float is, they are computed in float32.
template <class List, int type_input = 0, class F>
constexpr ReferenceKernel Instantiate(
    F, ReferenceKernel::ScratchBytes scratch_bytes = nullptr) {
  return {.run =
              [](const KernelContext& c) {
                DataType type;
                if constexpr (type_input < 0) {
                  type = c.output(0).type();
                } else {
                  type = c.input(type_input).type();
                }
                if (!DispatchType(List{}, type, [&]<class T>() {
                      F{}.template operator()<T>(c);
                    })) {
                  c.node().Fail("element type " + DataTypeName(type) +
                                    " is not supported",
                                ErrorCode::kNotImplemented);
                }
              },
          .supports =
              [](DataType type) {
                return DispatchType(List{}, type, []<class T>() {});
              },
          .type_input = type_input,
          .scratch_bytes = scratch_bytes};
}

// --- Facts

// A set of inputs or outputs by position; positions from 31 on share a bit.
class SlotSet {
 public:
  constexpr SlotSet() = default;
  constexpr SlotSet(std::initializer_list<int> slots) {
    for (int slot : slots) bits_ |= 1u << (slot < 31 ? slot : 31);
  }
  constexpr bool contains(size_t slot) const {
    return (bits_ >> (slot < 31 ? slot : 31)) & 1u;
  }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  uint32_t bits_ = 0;
};

// Output `output` is the same memory as input `input`.
struct Alias {
  int output = -1;
  int input = -1;
};

struct Arity {
  int min = 1;
  int max = 1;  // kVariadic: no limit
  static constexpr int kVariadic = std::numeric_limits<int>::max();
};

// Writes the gradients of a node as further nodes of its graph.
using GradientRule = void (*)(GradientContext&);

// Around every rule in an OpDef: builds without autodiff hold none.
constexpr GradientRule Rule([[maybe_unused]] GradientRule rule) {
#ifdef STROP_NO_AUTODIFF
  return nullptr;
#else
  return rule;
#endif
}

struct OpDef {
  std::string_view name;
  std::string_view domain = "";
  // First opset of its domain in which the op has this meaning; it holds up
  // to the next OpDef of the same name.
  int since = 1;
  Arity inputs = {1, 1};
  Arity outputs = {1, 1};

  // Sets type and shape of every output, and checks the inputs'. Throws.
  void (*infer)(InferContext&) = nullptr;
  ReferenceKernel reference = {};

  // Inputs that `infer` needs by value (axes, shapes, ...).
  SlotSet value_inputs = {};
  // Inputs of which the op reads type and shape only, never the elements
  // (Shape, Size): they need not be computed before it or kept for it.
  SlotSet shape_inputs = {};
  // Outputs that are an input's memory after the op (InPlaceAccumulatorV2).
  Alias aliases[3] = {};
  // Inputs that the op writes into.
  SlotSet mutates = {};
  // Output 0 holds the elements of input 0 under another shape (Reshape,
  // Identity): nothing is computed.
  bool is_view = false;
  // Output 0 may be written over one of these inputs if nobody reads it
  // later and type and shape are equal: element i of the output depends on
  // element i of that input only.
  SlotSet may_overwrite = {};
  // f(0, ..., 0) = 0: zero padding of a blocked layout stays zero.
  bool keeps_zero = false;
  // Elementwise and cheap enough to compute twice.
  bool cheap = false;
  // How to differentiate; null: there is no rule.
  GradientRule gradient = nullptr;
  // Inputs along which no gradient flows (labels, indices, shapes), or along
  // which it is zero (Floor). Integers and bools need not be listed.
  SlotSet stops_gradient = {};
  // Has float inputs, but no gradient that would make sense: why `gradient`
  // is null and stays so.
  bool not_differentiable = false;
  // Draws random numbers or has another effect: never folded or merged.
  bool is_random = false;
  // A node's floats may be of several types. The plain kernel then gets
  // copies, all of the widest: float64 if there is one, else float32.
  bool mixes_floats = false;
};

// Ops of one domain that a user brings. The OpDefs must outlive every Module
// and Optimizer that was given the domain.
struct CustomOpDomain {
  std::string name;
  std::vector<const OpDef*> ops;
};

}  // namespace strop
