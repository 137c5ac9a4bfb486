/* The doctor's questions about CUPTI. */
#pragma once

#include "collect/doctor/checks.h"

void mp_doctor_cupti(struct mp_checks *checks, const char *site);
