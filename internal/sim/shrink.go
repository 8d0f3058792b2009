package sim

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// Shrunk is the smallest run found that fails like another one.
type Shrunk struct {
	*Report
	// Runs is how many runs the search took.
	Runs int
}

// String describes the run: its size and its kinds of faults.
func (s *Shrunk) String() string {
	f := s.Options.Faults
	return fmt.Sprintf("shrunk in %d runs to %d nodes, %d partitions, %d tasks, %s of chaos and %d kinds of faults: %s\n%s",
		s.Runs, s.Options.Nodes, s.Options.Partitions, s.Options.Tasks, s.Options.Chaos, f.Kinds(), f.names(), s.Report)
}

// shrinkSeeds is how many seeds are tried for a smaller world. With fewer tasks or faults a seed draws a different run,
// which seldom shows the same mistake.
const shrinkSeeds = 16

// Shrink looks for a smaller run that breaks the same promise: with fewer kinds of faults, tasks, nodes and partitions,
// and a shorter time of chaos, over a few seeds each. It stops when nothing smaller fails, or when its runs are used up.
func Shrink(r *Report, most int) *Shrunk {
	s := &Shrunk{Report: r}
	for again := true; again && s.Runs < most; {
		again = false
		for some := faultKinds; some >= 1; some = (some + 1) / 2 {
			for from := 0; from < faultKinds; from += some {
				again = s.try(most, func(o *Options) bool { return o.Faults.without(from, from+some) }) || again
			}
			if some == 1 {
				break
			}
		}
		for _, change := range smaller {
			for s.try(most, change) {
				again = true
			}
		}
	}
	o := s.Options
	o.Trace = true
	s.Report = run(s.Seed, o)
	return s
}

// try runs a smaller world over some seeds, and keeps the first run that fails alike.
func (s *Shrunk) try(most int, change func(o *Options) bool) bool {
	o, kind := s.Options, Kind(s.Violation)
	faults := *o.Faults
	o.Faults = &faults
	if !change(&o) {
		return false
	}
	for i := uint64(0); i < shrinkSeeds && s.Runs < most; i++ {
		s.Runs++
		seed := s.Seed
		if i > 0 {
			seed = i
		}
		if x := run(seed, o); Kind(x.Violation) == kind {
			s.Report = x
			return true
		}
	}
	return false
}

// smaller are the ways to make a world smaller. Each returns false if it cannot get any smaller.
var smaller = []func(o *Options) bool{
	func(o *Options) bool { o.Tasks /= 2; return o.Tasks > 0 },
	func(o *Options) bool { o.Tasks--; return o.Tasks > 0 },
	func(o *Options) bool { o.Nodes--; return o.Nodes > 0 },
	func(o *Options) bool { o.Partitions--; return o.Partitions > 0 },
	func(o *Options) bool { o.Chaos = (o.Chaos / 2).Truncate(time.Second); return o.Chaos > 0 },
}

var faultKinds = reflect.TypeFor[Faults]().NumField()

// without switches kinds of faults off, by field index, and says whether any was on.
func (f *Faults) without(from, to int) bool {
	on := false
	for i := from; i < min(to, faultKinds); i++ {
		v := reflect.ValueOf(f).Elem().Field(i)
		on = on || v.Float() > 0
		v.SetFloat(0)
	}
	return on
}

// Kinds returns how many kinds of faults are on.
func (f *Faults) Kinds() int { return len(strings.Fields(f.names())) }

// names lists the kinds of faults that are on.
func (f *Faults) names() string {
	var on []string
	v := reflect.ValueOf(f).Elem()
	for i := range faultKinds {
		if v.Field(i).Float() > 0 {
			on = append(on, v.Type().Field(i).Name)
		}
	}
	return strings.Join(on, " ")
}

var particular = regexp.MustCompile(`"[^"]*"|[0-9a-f]{16,}|\d+|\b[A-C]/`)

// Kind returns a violation without the names and numbers of its run.
func Kind(violation string) string {
	if violation == "" {
		return ""
	}
	words := strings.Fields(particular.ReplaceAllString(violation, "#"))
	return strings.Join(words[:min(len(words), 7)], " ")
}
