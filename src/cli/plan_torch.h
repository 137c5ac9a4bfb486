/* What another version of PyTorch than the planned one would take. */
#ifndef MP_CLI_PLAN_TORCH_H
#define MP_CLI_PLAN_TORCH_H

#include <stdbool.h>

/* Of "2.9", "2.6.0+debian", ...: major and minor; false: no version. */
bool mp_plan_read_torch(const char *text, unsigned version[2]);
/* Says what is known to differ where the versions do; nothing where one is not known. */
void mp_plan_report_torch(const char *planned, const char *wanted);

#endif
