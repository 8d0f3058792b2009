package bench

import (
	"fmt"
	"runtime"
	"time"
)

// Origin describes the program, the machine and the flags. Figures of two runs are comparable if these are the same.
type Origin struct {
	Version string `json:"version"`
	// Commit is the commit of a build from a checkout, if known. Modified says that files differed from it.
	Commit    string `json:"commit,omitzero"`
	Modified  bool   `json:"commit_modified,omitzero"`
	GoVersion string `json:"go_version"`
	// OS and Arch are as Go names them.
	OS   string `json:"os"`
	Arch string `json:"arch"`
	// Processors is GOMAXPROCS: how many cores run Go code at once.
	Processors int `json:"gomaxprocs"`
	// CPU and Memory are left out if the operating system does not report them.
	CPU    string  `json:"cpu_model,omitzero"`
	Memory float64 `json:"machine_memory_mib,omitzero"`
	// Flags are the flags that were given, on the command line or by a variable.
	Flags []string `json:"flags"`
	// Started is the time of the call, in UTC.
	Started time.Time `json:"started"`
}

// Here completes an origin with this process and this machine.
func (o Origin) Here(now time.Time) Origin {
	o.GoVersion, o.OS, o.Arch, o.Processors = runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)
	o.CPU, o.Memory = cpuModel(), machineMemory()
	o.Started = now.UTC().Truncate(time.Millisecond)
	if o.Flags == nil {
		o.Flags = []string{} // an empty list in JSON, not null
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

// cpuModel is Linux's name of the first CPU. It is empty on other systems, and on machines without a name.
func cpuModel() string { return procValue("/proc/cpuinfo", "model name") }

func machineMemory() float64 { return mib(procBytes("/proc/meminfo", "MemTotal")) }
