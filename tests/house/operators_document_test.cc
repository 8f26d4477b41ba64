// SPDX-License-Identifier: Apache-2.0
//
// Holds docs/operators.md against the lists of ops and kernels.
//
//   operators_document_test --write
//
// writes it anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/registry.h"
#include "ops/type_trial.h"
#include "providers/cpu/kernel_list.h"

namespace strop {
namespace {

constexpr char kHead[] =
    R"(<!-- Written by operators_document_test --write; do not edit. -->

# Operators

Opsets 6 to 28 of ONNX run. Where "opsets" is empty, an op means the same in
all of them that have it; older spellings (an attribute that became an input)
are read as the newest one.

"Types" are those of the tensors that the op computes with. *floats* are
float32, float64, float16 and bfloat16: arithmetic on the 16-bit types happens
in float32. *integers* are the signed and unsigned ones of 8, 16, 32 and 64
bits. An op without types runs a graph of its own, or is rewritten into others
before it runs.

"Gradient" says whether `strop prepare` can differentiate through the op: *yes*,
*none* where it would make no sense (it is then not differentiable), *stops*
where it is zero or where all inputs are integers, and nothing where a rule is
missing or the op is one of a training graph's own.

"Kernels" are the fast ones for the CPU, best first; each serves some shapes
and types (`strop inspect --plan` tells which and why). All else runs on plain
reference kernels.
)";

void Append(std::string& to, std::string_view word) {
  if (!to.empty()) to += ", ";
  to += word;
}

// Appends those of the types that the op runs on, or the word for all.
void AppendTypes(std::string& to, const OpDef& op,
                 std::span<const DataType> types, std::string_view all) {
  std::string some;
  bool has_all = true;
  for (const DataType type : types) {
    if (RunsOn(op, type)) {
      Append(some, DataTypeName(type));
    } else {
      has_all = false;
    }
  }
  if (!some.empty()) Append(to, has_all ? all : some);
}

std::string TypesOf(const OpDef& op) {
  constexpr DataType kFloats[] = {DataType::kFloat32, DataType::kFloat64,
                                  DataType::kFloat16, DataType::kBfloat16};
  constexpr DataType kIntegers[] = {DataType::kInt8,   DataType::kInt16,
                                    DataType::kInt32,  DataType::kInt64,
                                    DataType::kUint8,  DataType::kUint16,
                                    DataType::kUint32, DataType::kUint64};
  constexpr DataType kBools[] = {DataType::kBool};
  std::string types;
  AppendTypes(types, op, kFloats, "floats");
  AppendTypes(types, op, kIntegers, "integers");
  AppendTypes(types, op, kBools, "bool");
  return types;
}

// "1 to 12", "13 and later", or nothing where one meaning holds throughout.
std::string OpsetsOf(std::span<const OpDef* const> all, size_t index) {
  const OpDef& op = *all[index];
  const auto is_same_op = [&](size_t i) {
    return i < all.size() && all[i]->name == op.name &&
           all[i]->domain == op.domain;
  };
  if (is_same_op(index + 1)) {
    return fmt::format("{} to {}", op.since, all[index + 1]->since - 1);
  }
  const bool is_newer = index > 0 && is_same_op(index - 1);
  return is_newer ? fmt::format("{} and later", op.since) : "";
}

std::string_view GradientOf(const OpDef& op) {
  if (op.gradient != nullptr) return "yes";
  // Their gradients stand in autodiff/control_flow.cc; Scan's from 9 on.
  if (op.domain == kOnnx && (op.name == "If" || op.name == "Loop" ||
                             (op.name == "Scan" && op.since >= 9))) {
    return "yes";
  }
  if (op.not_differentiable) return "none";
  const size_t inputs =
      std::min<size_t>(static_cast<size_t>(op.inputs.max), 31);
  for (size_t i = 0; i < inputs; ++i)
    if (!op.stops_gradient.contains(i)) return "";
  return "stops";
}

std::string KernelsOf(const OpDef& op) {
  std::string names;
  for (const KernelEntry& kernel : KernelList()) {
    if (kernel.domain == op.domain && kernel.op == op.name) {
      Append(names, kernel.name);
    }
  }
  return names;
}

std::string Section(std::string_view title, std::string_view domain) {
  std::string rows;
  const auto all = AllOps();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i]->domain != domain) continue;
    rows += fmt::format("| {} | {} | {} | {} | {} |\n", all[i]->name,
                        OpsetsOf(all, i), TypesOf(*all[i]), GradientOf(*all[i]),
                        KernelsOf(*all[i]));
  }
  if (rows.empty()) return "";
  return fmt::format(
      "\n## {}\n\n| op | opsets | types | gradient | kernels |\n"
      "|---|---|---|---|---|\n{}",
      title, rows);
}

std::string Document() {
  return kHead + Section("ONNX (`ai.onnx`)", kOnnx) +
         Section("ONNX, previews (`ai.onnx.preview`)", "ai.onnx.preview") +
         Section("ONNX Runtime (`com.microsoft`)", kMicrosoft) +
         Section("Strop (`strop`)", kStrop);
}

TEST(OperatorsDocument, IsUpToDate) {
#ifndef STROP_WITH_ONEDNN
  GTEST_SKIP() << "the document lists the kernels of oneDNN too";
#endif
  std::ifstream file(STROP_OPERATORS_DOCUMENT);
  const std::string text((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  EXPECT_EQ(text, Document())
      << "write it anew: operators_document_test --write";
}

TEST(OperatorsDocument, HasEveryOp) {
  const std::string text = Document();
  for (const OpDef* op : AllOps()) {
    if (op->domain == kInternal) continue;
    EXPECT_NE(text.find(fmt::format("| {} |", op->name)), std::string::npos)
        << op->domain << ":" << op->name;
  }
}

TEST(OperatorsDocument, NamesTheTypesThatRun) {
  EXPECT_EQ(TypesOf(*FindOp("", "Relu", 14)).substr(0, 6), "floats");
  EXPECT_EQ(TypesOf(*FindOp("", "And", 7)), "bool");
  EXPECT_EQ(TypesOf(*FindOp("", "DynamicQuantizeLinear", 11)), "float32");
  EXPECT_EQ(TypesOf(*FindOp(kMicrosoft, "SGDOptimizerV2", 1)),
            "float32, float64");
  for (const OpDef* op : AllOps()) {
    if (op->reference.run == nullptr) continue;
    EXPECT_NE(TypesOf(*op), "") << op->domain << ":" << op->name;
  }
}

}  // namespace
}  // namespace strop

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string(argv[1]) == "--write") {
    const std::string text = strop::Document();
    std::ofstream(STROP_OPERATORS_DOCUMENT) << text;
    return 0;
  }
  return RUN_ALL_TESTS();
}
