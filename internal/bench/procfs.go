package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// The figures of Linux about processes and the machine. Other systems have no /proc, so the figures are zero and left out.

// tickTime is the unit of CPU times in /proc: USER_HZ is 100 on every platform that Go runs on.
const tickTime = 10 * time.Millisecond

// processCPU returns the CPU time of another running process.
func processCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The command's name may hold spaces and parentheses. The fields after the last parenthesis do not.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(string(fields[11]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tickTime
}

// processMemory returns the memory of a process in bytes: now, and at its peak.
func processMemory(pid int) (resident, peak int64) {
	file := fmt.Sprintf("/proc/%d/status", pid)
	return procBytes(file, "VmRSS"), procBytes(file, "VmHWM")
}

// procBytes returns a value in bytes that a file shows in kB.
func procBytes(file, name string) int64 {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(procValue(file, name), " kB"), 10, 64)
	return kib << 10
}

// procValue returns the first value of a name in a file of lines such as "name : value".
func procValue(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// machineCPU returns the CPU time that the machine has used since it started, and the total that was available.
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
	// user, nice, system, idle, iowait, irq, softirq, steal; the rest is part of the first two
	for i, f := range fields[1:9] {
		n, _ := strconv.ParseInt(string(f), 10, 64)
		whole += time.Duration(n) * tickTime
		if i != 3 && i != 4 {
			busy += time.Duration(n) * tickTime
		}
	}
	return busy, whole
}
