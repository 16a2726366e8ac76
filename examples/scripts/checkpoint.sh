#!/bin/sh
#PUMICE -N count -R cpu=1,memory=16Mi

# Counts to 100 (or to $LAST) and writes down how far it is. When it is evicted, the job starts it again, and it goes on
# from its checkpoint. On SIGTERM it has its grace period to write one; here every step does.
state="${CHECKPOINT:-count.checkpoint}"
step=0
[ -s "$state" ] && step=$(cat "$state") && echo "going on from step $step"
while [ "$step" -lt "${LAST:-100}" ]; do
    sleep "${PAUSE:-1}"
    step=$((step + 1))
    echo "$step" > "$state.new" && mv "$state.new" "$state"
done
echo "done at step $step"
