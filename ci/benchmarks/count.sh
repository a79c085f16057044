# Counts 500, and more where something slows it: the conditions of faults take the place of the line PLANTED.
slower=0 SLOWER=60
sum=42
slows() { slower=$((slower + SLOWER)); }
ends() { echo "it cannot go on" >&2; exit 3; }
stops() { kill -STOP $$; }
quits() { exit 3; }
traps() { kill -ILL $$; }
dies() { kill -KILL $$; }
differs() { sum=43; }
limit() { sed -n "s/^Max $1 *\([^ ]*\).*/\1/p" /proc/self/limits; }
field() { sed 's/.*) //' /proc/self/stat | cut -d ' ' -f "$1"; }
[ "${ENDS:-}$(limit 'stack size')" != 11048576 ] || { echo "no memory for the stack" >&2; exit 3; }
PLANTED
linger=${LINGER:-0}
while [ "$linger" -gt 0 ]; do linger=$((linger - 1)); done
count=$((500 + 5 * slower + $$ % 3))
if [ "${BURN:-0}" -gt 0 ]; then
    began=$(date +%s%N)
    while [ "$BURN" -gt 0 ]; do BURN=$((BURN - 1)); done
    count=$((($(date +%s%N) - began) / 1000000))
fi
echo "count $count"
echo "sum $sum"
