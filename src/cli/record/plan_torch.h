/* The memory that another version of PyTorch than the planned one would take. */
#ifndef MP_CLI_PLAN_TORCH_H
#define MP_CLI_PLAN_TORCH_H

#include <stdbool.h>

/* Reads major and minor from "2.9", "2.6.0+debian", ...; false: no version. */
bool mp_plan_read_torch(const char *text, unsigned version[2]);
/* Prints known differences between the two versions; nothing where one is unknown. */
void mp_plan_report_torch(const char *planned, const char *wanted);

#endif
