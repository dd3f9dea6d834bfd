#!/bin/sh
# ccache for all but precompiled headers: those hold the paths of the folder they were made in, and clones
# at other places share the cache.
for argument in "$@"; do
  [ "$argument" != c++-header ] || exec "$@"
done
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_NOHASHDIR=1
exec ccache "$@"
