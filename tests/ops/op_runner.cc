// SPDX-License-Identifier: Apache-2.0
#include "ops/op_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/half.h"
#include "base/throw.h"

namespace strop {

CaseInput In(Shape shape, Numbers64 values) {
  return {.shape = shape, .values = std::move(values)};
}
CaseInput InRange(Shape shape, double low, double high) {
  return {.shape = shape, .low = low, .high = high};
}
CaseInput Int64s(Shape shape, Numbers64 values) {
  return Typed(DataType::kInt64, shape, std::move(values));
}
CaseInput Int32s(Shape shape, Numbers64 values) {
  return Typed(DataType::kInt32, shape, std::move(values));
}
CaseInput BoolsOf(Shape shape, Numbers64 values) {
  return Typed(DataType::kBool, shape, std::move(values));
}
CaseInput Typed(DataType type, Shape shape, Numbers64 values) {
  return {.shape = shape, .values = std::move(values), .type = type};
}
CaseInput Omitted() { return {.omitted = true}; }
CaseInput ListOf(std::vector<CaseInput> list) {
  return {.list = std::move(list)};
}

Numbers64 ToNumbers(const Tensor& tensor) {
  Numbers64 numbers;
  const bool known = DispatchType(AllTypes{}, tensor.type(), [&]<class T>() {
    for (const T& value : tensor.values<T>()) {
      if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
        numbers.push_back(ToFloat(value));
      } else {
        numbers.push_back(static_cast<double>(value));
      }
    }
  });
  STROP_CHECK(known);
  return numbers;
}

void FromNumbers(std::span<const double> values, const Tensor& tensor) {
  STROP_CHECK(static_cast<int64_t>(values.size()) == tensor.element_count());
  const bool known = DispatchType(AllTypes{}, tensor.type(), [&]<class T>() {
    const auto to = tensor.values<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      if constexpr (std::is_same_v<T, Float16>) {
        to[i] = ToFloat16(static_cast<float>(values[i]));
      } else if constexpr (std::is_same_v<T, Bfloat16>) {
        to[i] = ToBfloat16(static_cast<float>(values[i]));
      } else {
        to[i] = static_cast<T>(values[i]);
      }
    }
  });
  STROP_CHECK(known);
}

void ExpectNear(const Numbers64& actual, const Numbers64& expected,
                double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(actual[i])
                                          : actual[i] == expected[i])
          << what << ", element " << i << ": " << actual[i] << " for "
          << expected[i];
      continue;
    }
    EXPECT_LE(std::abs(actual[i] - expected[i]), tolerance * largest)
        << what << ", element " << i << ": " << actual[i] << " for "
        << expected[i];
  }
}

namespace {

// Different numbers that float32 holds exactly, spread over [low, high).
Numbers64 Spread(const CaseInput& input, size_t index) {
  Numbers64 values(static_cast<size_t>(input.shape.element_count()));
  for (size_t i = 0; i < values.size(); ++i) {
    // Multiples of the golden ratio, cut to their fractions.
    const double step =
        std::fmod(0.6180339887 * static_cast<double>(i + 17 * index + 1), 1);
    values[i] = static_cast<float>(input.low + (input.high - input.low) * step);
  }
  return values;
}

OwnedTensor MakeTensor(const CaseInput& input, size_t index, DataType type) {
  OwnedTensor tensor(input.type == DataType::kUndefined ? type : input.type,
                     input.shape);
  FromNumbers(input.values.empty() ? Spread(input, index) : input.values,
              tensor.view());
  return tensor;
}

}  // namespace

OpRun::OpRun(const OpCase& op_case, DataType type) {
  graph_.opset_imports[op_case.domain] = op_case.opset;
  const size_t count = op_case.inputs.size();
  inputs_.resize(count);
  input_infos_.resize(count);
  input_memory_.resize(count);
  lists_.resize(count);
  Node node;
  node.name = op_case.name;
  node.op_type = op_case.op;
  node.domain = op_case.domain;
  for (size_t i = 0; i < count; ++i) {
    BuildInput(op_case.inputs[i], i, type);
    const bool omitted = op_case.inputs[i].omitted;
    node.inputs.push_back(
        omitted ? ValueId{} : graph_.AddValue("input" + std::to_string(i)));
    input_arguments_.push_back(omitted ? nullptr : &inputs_[i]);
  }
  for (const auto& [name, value] : op_case.attributes) {
    node.SetAttribute(name, value);
  }
  for (size_t i = 0; i < op_case.outputs.size(); ++i) {
    node.outputs.push_back(op_case.outputs[i] == '1'
                               ? graph_.AddValue("output" + std::to_string(i))
                               : ValueId{});
  }
  const NodeId id = graph_.AddNode(std::move(node));
  node_ = std::make_unique<OpNode>(graph_, graph_.node(id));
  op_ = FindOp(op_case.domain, op_case.op, op_case.opset);
  if (op_ == nullptr) {
    Throw(ErrorCode::kNotFound, "there is no op {}", op_case.op);
  }
  for (const auto& memory : input_memory_) {
    auto& copies = originals_.emplace_back();
    for (const OwnedTensor& tensor : memory) copies.push_back(tensor.Clone());
  }
  InferOutputs(op_case.outputs);
  BindOutputs();
}

void OpRun::BuildInput(const CaseInput& input, size_t index, DataType type) {
  if (input.omitted) return;
  ValueInfo& info = input_infos_[index];
  auto& memory = input_memory_[index];
  info.is_list = !input.list.empty();
  if (!info.is_list) {
    memory.push_back(MakeTensor(input, index, type));
    inputs_[index].tensor = memory[0].view();
    info.tensor = {memory[0].type(), memory[0].shape()};
    info.known = &inputs_[index].tensor;
    return;
  }
  for (size_t k = 0; k < input.list.size(); ++k) {
    memory.push_back(MakeTensor(input.list[k], index + 7 * k, type));
    lists_[index].push_back(memory.back().view());
    info.list.push_back({memory.back().type(), memory.back().shape()});
  }
  inputs_[index].list = lists_[index];
}

void OpRun::InferOutputs(const std::string& outputs) {
  outputs_.resize(outputs.size());
  output_infos_.resize(outputs.size());
  output_memory_.resize(outputs.size());
  std::vector<const ValueInfo*> in;
  for (size_t i = 0; i < input_infos_.size(); ++i) {
    in.push_back(input_arguments_[i] ? &input_infos_[i] : nullptr);
  }
  std::vector<ValueInfo*> out;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool present = outputs[i] == '1';
    out.push_back(present ? &output_infos_[i] : nullptr);
    output_arguments_.push_back(present ? &outputs_[i] : nullptr);
  }
  InferContext context(*node_, in, out);
  Infer(*op_, context);
}

void OpRun::BindOutputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (output_arguments_[i] == nullptr) continue;
    const ValueInfo& info = output_infos_[i];
    for (const Alias& alias : op_->aliases) {
      if (alias.output != static_cast<int>(i)) continue;
      outputs_[i] = inputs_[static_cast<size_t>(alias.input)];
    }
    if (info.is_list) {
      STROP_CHECK(outputs_[i].list.size() == info.list.size());
      continue;
    }
    STROP_CHECK(info.tensor.type != DataType::kUndefined);
    if (outputs_[i].tensor.data() != nullptr) {
      STROP_CHECK(outputs_[i].tensor.shape() == info.tensor.shape);
      continue;
    }
    if (info.tensor.shape.element_count() > (int64_t{1} << 21)) {
      node_->Fail("would give more than a test may hold",
                  ErrorCode::kOutOfMemory);
    }
    output_memory_[i].Resize(info.tensor.type, info.tensor.shape);
    outputs_[i].tensor = output_memory_[i].view();
  }
}

void OpRun::Restore() {
  for (size_t i = 0; i < input_memory_.size(); ++i) {
    for (size_t k = 0; k < input_memory_[i].size(); ++k) {
      const auto from = originals_[i][k].view().bytes();
      if (from.empty()) continue;
      std::memcpy(input_memory_[i][k].view().data(), from.data(), from.size());
    }
  }
  for (const OwnedTensor& tensor : output_memory_) {
    const auto bytes = tensor.view().bytes();
    const bool is_bool = tensor.type() == DataType::kBool;
    const int fill = is_bool ? fill_ & 1 : fill_;
    if (!bytes.empty()) std::memset(bytes.data(), fill, bytes.size());
  }
}

KernelContext OpRun::Context() {
  KernelContext context(*node_, input_arguments_, output_arguments_);
  context.set_threads(pool_, num_threads_);
  context.set_random({.seed = 1, .node = 2, .step = 3});
  return context;
}

KernelRequest OpRun::Request() {
  kernel_inputs_.assign(inputs_.size(), {});
  for (size_t i = 0; i < inputs_.size(); ++i) {
    kernel_inputs_[i].info = input_infos_[i].tensor;
    kernel_inputs_[i].is_list = input_infos_[i].is_list;
    kernel_inputs_[i].list = input_infos_[i].list;
    if (op_->value_inputs.contains(i)) {
      kernel_inputs_[i].constant = input_infos_[i].known;
    }
  }
  kernel_outputs_.clear();
  for (const ValueInfo& info : output_infos_) {
    kernel_outputs_.push_back(info.tensor);
  }
  return {.node = *node_,
          .op = *op_,
          .inputs = kernel_inputs_,
          .outputs = kernel_outputs_,
          .num_threads = num_threads_};
}

void OpRun::Run(const KernelChoice& choice) {
  Restore();
  OwnedTensor scratch(DataType::kUint8,
                      {static_cast<int64_t>(choice.scratch_bytes)});
  // NaN in every float of it.
  std::ranges::fill(scratch.values<uint8_t>(), uint8_t{0xff});
  KernelContext context = Context();
  context.set_scratch(static_cast<std::byte*>(scratch.view().data()));
  choice.kernel->Run(context);
}

void OpRun::RunReference() {
  const KernelChoice choice = ChooseReference();
  if (choice.kernel == nullptr) {
    node_->Fail(choice.reason, ErrorCode::kNotImplemented);
  }
  Run(choice);
}

std::string OpRun::RunProvider(const ExecutionProvider& provider) {
  const KernelChoice choice = Choose(provider);
  if (choice.kernel == nullptr) return choice.reason;
  for (const auto& layouts : {choice.input_layouts, choice.output_layouts}) {
    for (const Layout layout : layouts) {
      if (layout != Layout::kPlain) return "wants a blocked layout";
    }
  }
  Run(choice);
  return "";
}

Numbers64 OpRun::InputValues(size_t i) const {
  if (inputs_[i].list.empty()) return ToNumbers(inputs_[i].tensor);
  Numbers64 all;
  for (const Tensor& tensor : inputs_[i].list) {
    const Numbers64 part = ToNumbers(tensor);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Numbers64 OpRun::OutputValues(size_t i) const {
  if (outputs_[i].list.empty()) return ToNumbers(outputs_[i].tensor);
  Numbers64 all;
  for (const Tensor& tensor : outputs_[i].list) {
    const Numbers64 part = ToNumbers(tensor);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::string ErrorOf(OpCase op_case, DataType type) {
  op_case.name = "n";
  try {
    OpRun run(op_case, type);
    run.RunReference();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace strop
