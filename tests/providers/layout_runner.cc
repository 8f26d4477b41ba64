// SPDX-License-Identifier: Apache-2.0
#include "providers/layout_runner.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>

#include "base/thread_pool.h"

namespace strop {
namespace {

// All bytes 0xff: NaN as a float, -1 as an integer.
void FillWithNan(const Tensor& tensor) {
  std::memset(tensor.data(), 0xff, tensor.byte_count());
}

Shape StoredShape(const Shape& shape, Layout layout) {
  return Shape{StoredElementCount(shape, layout)};
}

// Calls fn(plain offset or -1 for padding, stored offset).
template <class F>
void ForEachStored(const Shape& shape, Layout layout, F&& fn) {
  const int64_t block = BlockSize(layout);
  const int64_t channels = shape[1];
  const int64_t blocks = (channels + block - 1) / block;
  const int64_t positions = shape.element_count(2, shape.rank());
  int64_t stored = 0;
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t s = 0; s < positions; ++s) {
        for (int64_t lane = 0; lane < block; ++lane) {
          const int64_t c = b * block + lane;
          fn(c < channels ? (n * channels + c) * positions + s : -1, stored++);
        }
      }
    }
  }
}

}  // namespace

OwnedTensor ToLayout(const Tensor& plain, Layout layout) {
  if (layout == Layout::kPlain) return OwnedTensor(plain);
  OwnedTensor stored(plain.type(), StoredShape(plain.shape(), layout));
  const size_t size = DataTypeSize(plain.type());
  ForEachStored(plain.shape(), layout, [&](int64_t from, int64_t to) {
    if (from < 0) return;
    std::memcpy(static_cast<char*>(stored.view().data()) + to * size,
                static_cast<const char*>(plain.data()) + from * size, size);
  });
  return stored;
}

OwnedTensor FromLayout(const Tensor& stored, const Shape& shape,
                       Layout layout) {
  OwnedTensor plain(stored.type(), shape);
  const size_t size = DataTypeSize(stored.type());
  if (layout == Layout::kPlain) {
    std::memcpy(plain.view().data(), stored.data(), plain.view().byte_count());
    return plain;
  }
  int64_t dirty = 0;
  ForEachStored(shape, layout, [&](int64_t to, int64_t from) {
    const char* source = static_cast<const char*>(stored.data()) + from * size;
    const char zero[8] = {};
    if (to < 0) {
      dirty += std::memcmp(source, zero, size) != 0;
    } else {
      std::memcpy(static_cast<char*>(plain.view().data()) + to * size, source,
                  size);
    }
  });
  EXPECT_EQ(dirty, 0) << "padding lanes are not zero";
  return plain;
}

std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

LayoutRunner::LayoutRunner(std::string_view domain, std::string_view op) {
  def_.domain = domain;
  def_.name = op;
  node_.domain = domain;
  node_.op_type = op;
  node_.name = "test";
}

LayoutRunner& LayoutRunner::Set(std::string_view attribute,
                                Attribute::Value value) {
  node_.SetAttribute(attribute, std::move(value));
  return *this;
}

LayoutRunner& LayoutRunner::Input(const Tensor& plain, Layout layout) {
  inputs_.push_back({OwnedTensor(plain), layout});
  return *this;
}

LayoutRunner& LayoutRunner::Floats(const Shape& shape,
                                   std::vector<float> values, Layout layout) {
  return Input(Tensor(shape, values.data()), layout);
}

LayoutRunner& LayoutRunner::LeaveOut() {
  inputs_.emplace_back().left_out = true;
  return *this;
}

LayoutRunner& LayoutRunner::Output(const Shape& shape, DataType type,
                                   int alias) {
  outputs_.push_back({type, shape, alias});
  return *this;
}

LayoutRun LayoutRunner::Run(KernelChoice (*choose)(const KernelRequest&),
                            int num_threads) {
  std::vector<KernelInput> wanted;
  for (const LayoutInput& input : inputs_) {
    KernelInput slot;
    if (!input.left_out) {
      slot.info = {input.tensor.type(), input.tensor.shape()};
      slot.layout = input.layout;
    }
    wanted.push_back(slot);
  }
  std::vector<TensorInfo> infos;
  for (const LayoutOutput& output : outputs_) {
    infos.push_back({output.type, output.shape});
  }
  KernelChoice choice = choose({.node = OpNode(graph_, node_),
                                .op = def_,
                                .inputs = wanted,
                                .outputs = infos,
                                .num_threads = num_threads});
  LayoutRun run;
  run.reason = choice.reason;
  if (!choice.kernel) return run;
  run.accepted = true;

  std::vector<Argument> arguments(inputs_.size() + outputs_.size());
  std::vector<const Argument*> inputs, outputs;
  std::vector<OwnedTensor> memory, kept;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Argument& argument = arguments[i];
    if (inputs_[i].left_out) {
      inputs.push_back(nullptr);
      continue;
    }
    const Layout layout = i < choice.input_layouts.size()
                              ? choice.input_layouts[i]
                              : Layout::kPlain;
    memory.push_back(ToLayout(inputs_[i].tensor, layout));
    argument.tensor =
        Tensor(inputs_[i].tensor.type(), inputs_[i].tensor.shape(),
               memory.back().view().data());
    inputs.push_back(&argument);
  }
  std::vector<size_t> bytes;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const LayoutOutput& output = outputs_[i];
    Argument& argument = arguments[inputs_.size() + i];
    run.layouts.push_back(i < choice.output_layouts.size()
                              ? choice.output_layouts[i]
                              : Layout::kPlain);
    if (output.type == DataType::kUndefined) {
      outputs.push_back(nullptr);
      continue;
    }
    memory.emplace_back(output.type,
                        StoredShape(output.shape, run.layouts.back()));
    argument.tensor =
        Tensor(output.type, output.shape,
               output.alias >= 0 ? inputs[output.alias]->tensor.data()
                                 : memory.back().view().data());
    outputs.push_back(&argument);
  }
  OwnedTensor scratch(DataType::kUint8,
                      Shape{static_cast<int64_t>(choice.scratch_bytes) + 64});
  ThreadPool pool(num_threads, /*part_nanoseconds=*/0);
  KernelContext context(OpNode(graph_, node_), inputs, outputs);
  context.set_scratch(static_cast<std::byte*>(scratch.view().data()));
  context.set_threads(&pool, num_threads);

  for (int round = 0; round < 2; ++round) {
    FillWithNan(scratch);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs[i]) continue;
      const int alias = outputs_[i].alias;
      const Tensor& tensor = outputs[i]->tensor;
      if (alias >= 0) {
        std::memcpy(tensor.data(), inputs_[alias].tensor.view().data(),
                    tensor.byte_count());
      } else {
        FillWithNan(Tensor(tensor.type(),
                           StoredShape(tensor.shape(), run.layouts[i]),
                           tensor.data()));
      }
    }
    choice.kernel->Run(context);
    const auto* guard = static_cast<const uint8_t*>(scratch.view().data());
    for (size_t i = choice.scratch_bytes; i < choice.scratch_bytes + 64; ++i) {
      EXPECT_EQ(guard[i], 0xff) << "scratch is overrun";
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (round == 0) run.outputs.emplace_back();
      if (!outputs[i]) continue;
      const Tensor& tensor = outputs[i]->tensor;
      OwnedTensor plain = FromLayout(
          Tensor(tensor.type(), StoredShape(tensor.shape(), run.layouts[i]),
                 tensor.data()),
          tensor.shape(), run.layouts[i]);
      if (round == 0) {
        run.outputs[i] = std::move(plain);
      } else {
        EXPECT_EQ(std::memcmp(run.outputs[i].view().data(), plain.view().data(),
                              plain.view().byte_count()),
                  0)
            << "output " << i << " differs in the second run";
      }
    }
  }
  return run;
}

}  // namespace strop
