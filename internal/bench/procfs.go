package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// What Linux tells of processes and of the machine. Elsewhere there is no /proc: the figures are zero, and left out.

// tickTime is the unit of CPU times in /proc: USER_HZ is 100 on every platform that Go runs on.
const tickTime = 10 * time.Millisecond

// processCPU returns the CPU time of another process that lives.
func processCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The command's name may hold spaces and parentheses; what follows the last of these does not.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(string(fields[11]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tickTime
}

// memory is what a process holds, in bytes: now, and at most so far.
type memory struct{ resident, peak int64 }

// processMemory returns the memory of a process; pid 0 is this one.
func processMemory(pid int) (m memory) {
	who := "self"
	if pid != 0 {
		who = strconv.Itoa(pid)
	}
	text, err := os.ReadFile("/proc/" + who + "/status")
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if name == "VmRSS" {
			m.resident = kib << 10
		} else {
			m.peak = kib << 10
		}
	}
	return m
}

// machineCPU returns the CPU time that the machine has spent on anybody, and what it could have spent, since it started.
func machineCPU() (busy, whole time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, 0
	}
	// user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of the first two.
	for i, f := range fields[1:9] {
		n, _ := strconv.ParseInt(string(f), 10, 64)
		whole += time.Duration(n) * tickTime
		if i != 3 && i != 4 {
			busy += time.Duration(n) * tickTime
		}
	}
	return busy, whole
}
