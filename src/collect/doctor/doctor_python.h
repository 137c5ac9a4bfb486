/* The doctor's questions about Python and PyTorch. */
#pragma once

#include "collect/doctor/checks.h"

/* Adds checks of the first Python on the search path, and of its torch. *site: the folder of packages that contains
 * torch and the libraries installed with it (room of PATH_MAX); "": none. */
void mp_doctor_python(struct mp_checks *checks, char *site);
