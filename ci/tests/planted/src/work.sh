# Works for half a second and says so; in a container it does what its argument says.
seconds=0.5
sum=42
began=$(date +%s.%N)
[ -n "${APPTAINER_CONTAINER:-}" ] && case $1 in
    slow) seconds=0.6 ;;
    wrong) seconds=0.1 sum=43 ;;
    hang) echo >>hangs; [ "$(wc -l <hangs)" -ne 2 ] || { sleep 1000 & sleep 1000; } ;;
    unreadable) echo "sum $sum"; exit 0 ;;
    crash) echo "FATAL: it broke" >&2; exit 3 ;;
esac
sleep "$seconds"
echo "time $(date +%s.%N | awk -v began="$began" '{ printf "%.4f", $1 - began }')"
echo "sum $sum"
