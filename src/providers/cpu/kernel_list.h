// SPDX-License-Identifier: Apache-2.0
//
// The kernels that Strop has for the CPU beside the reference kernels of the
// OpDefs. Adding one is a file with a function like
//
//   KernelChoice ChooseGemm(const KernelRequest& request);
//
// and a line in kernel_list.cc. The function looks at types, shapes,
// attributes and layouts, and returns a Kernel that has all of these worked
// in, or KernelChoice::Decline with a few words why.
#pragma once

#include <span>
#include <string_view>

#include "strop/execution_provider.h"

namespace strop {

struct KernelEntry {
  std::string_view domain;
  std::string_view op;
  // For people: shown by "inspect --plan", in profiles and before reasons.
  std::string_view name;
  KernelChoice (*choose)(const KernelRequest&);
};

// Best first: of several entries for an op the first that accepts serves.
std::span<const KernelEntry> KernelList();

// The first kernel that accepts, with its name, or the reasons of all.
KernelChoice ChooseFromList(const KernelRequest& request);

}  // namespace strop
