// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <reprise/export.h>
#include <reprise/ledger.h>
#include <reprise/profile.h>
#include <reprise/text_style.h>

// Profiles and peaks as text: tables for people, JSON for programs. docs/profile.md describes both.

namespace reprise {

struct ProfileTableOptions {
  std::optional<int64_t> depth;  ///< modules deeper than this are left out. Default: all
  std::optional<int64_t> top;    ///< only so many lines, the largest. Default: the tree
  bool saved = false;            ///< one line for each saved tensor, too
  TextStyle style = {};          ///< for a terminal. Default: as wide as need be
};

/// Aligned tables with units. Two lines about the run, then the tree of modules.
REPRISE_API std::string to_table(const Profile& profile, const ProfileTableOptions& options = {});

/// The peak of a timeline: bytes of each category there, the resident memory of the process beside
/// them, and the `top` largest blocks that are alive.
REPRISE_API std::string peak_table(const Timeline& timeline, int64_t top = 8,
                                   const TextStyle& style = {});

/// JSON with a newline at the end, which profile_from_json() reads back exactly.
REPRISE_API std::string to_json(const Profile& profile);

/// Throws UsageError for text that is no JSON (cut off, for one), or not a profile of a known
/// schema, naming the place.
REPRISE_API Profile profile_from_json(const std::string& text);

}  // namespace reprise
