// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// REPRISE_API marks what the shared library exports; everything else is hidden.
#if defined(REPRISE_STATIC)
#define REPRISE_API
#elif defined(_WIN32)
#if defined(REPRISE_BUILDING)
#define REPRISE_API __declspec(dllexport)
#else
#define REPRISE_API __declspec(dllimport)
#endif
#else
#define REPRISE_API __attribute__((visibility("default")))
#endif
