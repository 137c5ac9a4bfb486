/* Launches of the stand-in cuBLAS. */
#pragma once

/* Called by functions that compute, also by stubs (stub.h): the driver counts a kernel on the handle's stream. */
int soft_launched(void *handle);
