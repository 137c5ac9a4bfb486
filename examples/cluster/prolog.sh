#!/bin/sh
# Prolog of slurm.conf (runs as root): a folder on the node's own disk for this job alone.
mkdir -p "/local/mp.$SLURM_JOB_ID" && chown "$SLURM_JOB_USER" "/local/mp.$SLURM_JOB_ID"
