/* What machine this is. */
#pragma once

enum { LS_HOST_NAME = 64, LS_HOST_BOOT = 40 };

void ls_host_name(char name[LS_HOST_NAME]); /* "?" where it has none */

/* A word that the kernel drew when it started, and that no other machine has; "?" where there is none. */
void ls_host_boot(char boot[LS_HOST_BOOT]);
