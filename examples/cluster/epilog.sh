#!/bin/sh
# Epilog of slurm.conf (runs as root): mends cut recordings, then copies all to the user's home.
# Give memprof's whole path if root's PATH lacks it.
cd "/local/mp.$SLURM_JOB_ID" || exit 0
for file in *.mp; do memprof info "$file" >/dev/null || { memprof recover "$file" -o whole; mv whole "$file"; }; done
cp -r "/local/mp.$SLURM_JOB_ID" "/home/$SLURM_JOB_USER/"
