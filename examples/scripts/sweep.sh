#!/bin/sh
#PUMICE -N sweep --array 1-9:2,20%2 --output sweep-%a.out
#PUMICE -R cpu=1,memory=16Mi --time 5m

# Six runs, two at a time. Lines that begin with #PUMICE hold options of vsub.
if [ "$PUMICE_ARRAY_INDEX" = 1 ]; then
    echo "run 1, the first of $PUMICE_ARRAY_COUNT"
else
    echo "run $PUMICE_ARRAY_INDEX"
fi
