// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The one place that holds the version; CMake reads it from here.
#define REPRISE_VERSION_MAJOR 0
#define REPRISE_VERSION_MINOR 1
#define REPRISE_VERSION_PATCH 0
#define REPRISE_VERSION "0.1.0"
