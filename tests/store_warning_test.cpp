// SPDX-License-Identifier: BSD-3-Clause
#include <filesystem>

#include <reprise/store.h>

#include <gtest/gtest.h>

#include "tests/store_support.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

namespace reprise::testing {
namespace {

using tests::payload_of;

/// Warnings come once in a process, so this is one test.
TEST(StoreWarning, MemoryThatSavesNoneIsSaidOnceAndToThoseWhoSendToItThemselves) {
  {
    const Warnings warnings;
    const CompressedStore store(HostStore(1 << 20));
    store.send(payload_of(1, 1000)).wait();
    EXPECT_EQ(warnings.text(), "");
  }
  const HostStore store(1 << 20);
  {
    const Warnings warnings;
    store.send(payload_of(1, 1000)).wait();
    EXPECT_TRUE(warnings.mention("for a model that trains on the CPU it saves none"));
    EXPECT_TRUE(warnings.mention("DiskStore"));
  }
  const Warnings warnings;
  store.send(payload_of(1, 1000)).wait();
  EXPECT_EQ(warnings.text(), "");
}

TEST(StoreWarning, AFolderInMemoryIsSaid) {
  if (!std::filesystem::exists("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  const DiskStore store("/dev/shm");
  const Warnings warnings;
  store.send(payload_of(1, 1000)).wait();
  EXPECT_TRUE(warnings.mention("lies in memory"));
}

}  // namespace
}  // namespace reprise::testing
