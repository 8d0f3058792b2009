package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Origin is what two runs must share for their figures to be compared: the program, the machine and the flags.
type Origin struct {
	Version string `json:"version"`
	// Commit is that of a build from a checkout, empty where the build did not note it; Modified says that files differed from it.
	Commit    string `json:"commit,omitzero"`
	Modified  bool   `json:"commit_modified,omitzero"`
	GoVersion string `json:"go_version"`
	// OS and Arch are as Go names them.
	OS   string `json:"os"`
	Arch string `json:"arch"`
	// Processors is GOMAXPROCS: how many cores run Go code at once.
	Processors int `json:"gomaxprocs"`
	// CPU and Memory are left out where the operating system does not tell.
	CPU    string  `json:"cpu_model,omitzero"`
	Memory float64 `json:"machine_memory_mib,omitzero"`
	// Flags are those that were given, also by a variable.
	Flags []string `json:"flags"`
	// Started is when the command was called, in UTC.
	Started time.Time `json:"started"`
}

// Here completes an origin by what this process knows of itself and of the machine.
func (o Origin) Here(now time.Time) Origin {
	o.GoVersion, o.OS, o.Arch, o.Processors = runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)
	o.CPU, o.Memory = cpuModel(), machineMemory()
	o.Started = now.UTC().Truncate(time.Millisecond)
	if o.Flags == nil {
		o.Flags = []string{} // none, and not unknown
	}
	return o
}

func (o *Origin) program() string {
	text := "sagalog " + o.Version
	if o.Commit != "" {
		text += ", commit " + o.Commit[:min(12, len(o.Commit))]
		if o.Modified {
			text += " with changes"
		}
	}
	return text + fmt.Sprintf(", %s, started %s", o.GoVersion, o.Started.Format(time.RFC3339))
}

func (o *Origin) machine(cores int) string {
	text := fmt.Sprintf("%d cores (GOMAXPROCS %d), %s/%s", cores, o.Processors, o.OS, o.Arch)
	if o.CPU != "" {
		text += ", " + o.CPU
	}
	if o.Memory > 0 {
		text += fmt.Sprintf(", %.0f MiB", o.Memory)
	}
	return text
}

// cpuModel is what Linux calls the first CPU; empty elsewhere, and on machines that do not tell.
func cpuModel() string { return procValue("/proc/cpuinfo", "model name") }

func machineMemory() float64 {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(procValue("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	return mib(kib << 10)
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
