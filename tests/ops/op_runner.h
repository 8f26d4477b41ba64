// SPDX-License-Identifier: Apache-2.0
//
// Runs one op outside any model: builds a graph with one node, infers its
// outputs and runs a kernel. The cases of tests/ops/cases serve all tests of
// ops: values, types, kernels of providers against the reference.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/reference_kernel.h"
#include "ops/registry.h"
#include "strop/execution_provider.h"
#include "strop/op.h"

namespace strop {

using Numbers64 = std::vector<double>;

// An input of a case. Without values it is filled with different numbers
// between low and high, the same in every run.
struct CaseInput {
  Shape shape = {};
  Numbers64 values = {};
  DataType type = DataType::kUndefined;  // undefined: the case's type
  double low = -2, high = 2;
  bool omitted = false;
  std::vector<CaseInput> list = {};  // an input that is a list of tensors
};

// Shorthands for the inputs of cases.
CaseInput In(Shape shape, Numbers64 values = {});
CaseInput InRange(Shape shape, double low, double high);
CaseInput Int64s(Shape shape, Numbers64 values);
CaseInput Int32s(Shape shape, Numbers64 values);
CaseInput BoolsOf(Shape shape, Numbers64 values);
CaseInput Typed(DataType type, Shape shape, Numbers64 values);
CaseInput Omitted();
CaseInput ListOf(std::vector<CaseInput> list);

using CaseAttributes = std::vector<std::pair<std::string, Attribute::Value>>;

struct OpCase {
  std::string name = {};  // op, or op and what is special: "Add/broadcast"
  std::string op;
  std::vector<CaseInput> inputs = {};
  CaseAttributes attributes = {};
  std::string domain = "";
  int64_t opset = 23;
  // Which outputs the node has: "11" two, "101" the first and the third.
  std::string outputs = "1";
  // Expected elements per output; an empty list is not compared.
  std::vector<Numbers64> expected = {};
  // Elements that inputs hold afterwards, for those that the op changes.
  std::vector<Numbers64> expected_inputs = {};
  // Types of the inputs that have no type of their own.
  std::vector<DataType> types = {DataType::kFloat32, DataType::kFloat64};
  // Largest difference in float32, over the largest expected magnitude.
  double tolerance = 2e-6;
};

// All cases, in one list.
const std::vector<OpCase>& AllOpCases();

// One run of a case with inputs of one type. An output of more than two
// million elements is an Error.
class OpRun {
 public:
  OpRun(const OpCase& op_case, DataType type);
  OpRun(const OpRun&) = delete;

  const OpDef& op() const { return *op_; }
  const OpNode& node() const { return *node_; }

  // Fills the outputs with NaN, restores the inputs and runs.
  void RunReference();
  // The same with a provider's kernel. Returns why the provider declines, or
  // "" after a run. Kernels that want blocked layouts are not run.
  std::string RunProvider(const ExecutionProvider& provider);

  // For whoever runs a kernel otherwise: the kernels, and all but the scratch
  // that one needs.
  KernelChoice ChooseReference() { return MakeReferenceKernel(Request()); }
  KernelChoice Choose(const ExecutionProvider& provider) {
    return provider.Choose(Request());
  }
  KernelContext Context();
  // Null where the node leaves one out.
  std::span<const Argument* const> inputs() const { return input_arguments_; }
  std::span<const Argument* const> outputs() const { return output_arguments_; }

  bool has_output(size_t i) const { return output_arguments_[i] != nullptr; }
  const Tensor& output(size_t i) const { return outputs_[i].tensor; }
  const Tensor& input(size_t i) const { return inputs_[i].tensor; }
  std::span<const Tensor> list(size_t i) const { return inputs_[i].list; }
  // What input i, or output i, holds: all elements, lists one after another.
  Numbers64 InputValues(size_t i) const;
  Numbers64 OutputValues(size_t i) const;

  // What fills the bytes of outputs before a run. 0xff is NaN for floats; a
  // bool holds the lowest bit only.
  void set_fill(unsigned char fill) { fill_ = fill; }

  // Threads for the kernels; none by default.
  void set_threads(ThreadPool* pool, int num_threads) {
    pool_ = pool;
    num_threads_ = num_threads;
  }

 private:
  void BuildInput(const CaseInput& input, size_t index, DataType type);
  void InferOutputs(const std::string& outputs);
  void BindOutputs();
  void Restore();
  KernelRequest Request();  // holds until the next call
  void Run(const KernelChoice& choice);

  Graph graph_;
  std::unique_ptr<OpNode> node_;
  const OpDef* op_ = nullptr;
  // Owners; the originals restore what an op has changed.
  std::vector<std::vector<OwnedTensor>> input_memory_, originals_;
  std::vector<OwnedTensor> output_memory_;
  std::vector<std::vector<Tensor>> lists_;
  std::vector<Argument> inputs_, outputs_;
  std::vector<ValueInfo> input_infos_, output_infos_;
  std::vector<const Argument*> input_arguments_, output_arguments_;
  std::vector<KernelInput> kernel_inputs_;
  std::vector<TensorInfo> kernel_outputs_;
  unsigned char fill_ = 0xff;
  ThreadPool* pool_ = nullptr;
  int num_threads_ = 1;
};

// The text of the Error that the case, called "n", causes; "" if there is
// none.
std::string ErrorOf(OpCase op_case, DataType type = DataType::kFloat32);

// The elements of a tensor of numbers or bools.
Numbers64 ToNumbers(const Tensor& tensor);
// Writes numbers into a tensor of any type of numbers or bools.
void FromNumbers(std::span<const double> values, const Tensor& tensor);

// Expects values within tolerance times the largest expected magnitude; NaN
// and infinities must be the same.
void ExpectNear(const Numbers64& actual, const Numbers64& expected,
                double tolerance, const std::string& what);

}  // namespace strop
